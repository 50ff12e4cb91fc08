"""The fence of databases that are gone, as one shard has it: its stored document, and what was confirmed under it.

See `docstore.sharding.ddl.incarnations` for what the fence refuses, and why.
"""

from __future__ import annotations

from typing import Any

from bson.timestamp import Timestamp

from docstore.bson import document_to_python
from docstore.node.node import DataNode
from docstore.sharding.ddl.incarnations import DATABASES, FENCE, is_fenced
from docstore.sharding.routing import Routing
from mongod.migration.config_servers import ConfigServers
from mongod.migration.holds import stored_document


def stored_note(node: DataNode, name: str) -> dict[str, Any] | None:
    """Return the note of a database, None where there is none."""
    raw = stored_document(node, DATABASES, name)
    return None if raw is None else document_to_python(raw)


def stored_fence(node: DataNode) -> dict[str, Any] | None:
    """Return the fence, None until notes have been joined."""
    return stored_note(node, FENCE)


class Confirmations:
    """The incarnations of databases that the config servers have confirmed under the present fence."""

    def __init__(self) -> None:
        self._fence: dict[str, Any] | None = None
        self._confirmed: dict[str, Timestamp] = {}

    async def is_current(self, routing: Routing, fence: dict[str, Any] | None, config: ConfigServers) -> bool:
        """Return whether the database that the routing shows is none of a joined note. Errors: those of the read."""
        if not is_fenced(routing, fence):
            return True
        assert routing.database is not None, "a database that is fenced is there"
        name, timestamp = routing.namespace.partition(".")[0], routing.database.timestamp
        if self._fence != fence:
            self._fence = fence
            self._confirmed = {}
        confirmed = self._confirmed
        if confirmed.get(name) != timestamp:
            if (await config.database_timestamps([name])).get(name) != timestamp:
                return False
            confirmed[name] = timestamp
        return True
