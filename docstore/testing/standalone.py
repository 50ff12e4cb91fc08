"""A node alone."""

from __future__ import annotations

from docstore.testing.deployment import Deployment
from docstore.testing.member import Member


class Standalone(Deployment):
    """One node outside of any set: the fastest to start; no transactions, no change streams."""

    @property
    def server(self) -> Member:
        """The node."""
        return self.members["standalone"]

    @property
    def uri(self) -> str:
        return f"mongodb://{self.server.address}/"

    def _start(self) -> None:
        self._launch(self._add("standalone", "mongod"))
