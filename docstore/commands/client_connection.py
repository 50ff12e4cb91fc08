"""Who is at the other end of a connection, as commands see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstore.commands.legacy.last_write import NOTHING_WRITTEN
from docstore.commands.request_templates import RequestTemplates


class ClientConnection:
    """One client connection's standing facts. The transport fills it; hello adds what the client says of itself.

    `id`: the connection id shown to the client. `remote`: "host:port". `metadata`: the raw `client` document of the
    first hello. `compressors`: names agreed on, in the client's order.
    `cursors`: ids of cursors that die with the connection (those of exhaust streams).
    `opened`: the last requests as they were read, for a client that sends others of the same shape.
    `last_write`: what the last write without a reply did. `hang_up`: closes the connection at once.
    """

    __slots__ = (
        "application_name", "compressors", "cursors", "greeted", "hang_up", "id", "last_write",
        "metadata", "opened", "remote",
    )  # fmt: skip

    def __init__(self, connection_id: int, remote: str, hang_up: Callable[[], None] = lambda: None) -> None:
        self.id = connection_id
        self.remote = remote
        self.hang_up = hang_up
        self.last_write = NOTHING_WRITTEN
        self.metadata: bytes | None = None
        self.application_name = ""
        self.compressors: tuple[str, ...] = ()
        self.greeted = False
        self.cursors: set[int] = set()
        self.opened = RequestTemplates()

    def describe(self) -> dict[str, Any]:
        """For logs."""
        return {"remote": self.remote, "connectionId": self.id}
