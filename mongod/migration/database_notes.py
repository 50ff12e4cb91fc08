"""The notes of databases that are gone stay few: a primary joins the first of them into the fence.

See `docstore.sharding.ddl.incarnations` for why that refuses no less.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bson.timestamp import Timestamp

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component
from docstore.node.node import DataNode
from docstore.node.upkeep.periodic import PeriodicTask
from docstore.sharding.ddl import incarnations
from docstore.sharding.ddl.incarnations import DATABASES, FENCE, is_fenced, joinable, joined
from docstore.sharding.routing import Routing
from mongod.migration.config_servers import ConfigServers
from mongod.migration.holds import stored_document

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

LOG = component("SHARDING")
LOOK_SECONDS = 5.0
JOINED_AT_ONCE = 500


def stored_fence(node: DataNode) -> dict[str, Any] | None:
    """The fence, once there is one."""
    return _stored(node, FENCE)


class Confirmations:
    """The incarnations of databases that the config servers have confirmed under the fence of now."""

    def __init__(self) -> None:
        self._fence: dict[str, Any] | None = None
        self._confirmed: dict[str, Timestamp] = {}

    async def is_current(self, routing: Routing, fence: dict[str, Any] | None, config: ConfigServers) -> bool:
        """Whether the database that the routing shows is not one of a joined note. Errors: those of the read."""
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


class DatabaseNotes(PeriodicTask):
    """Joins notes now and then, while there are more than `MAX_DATABASE_NOTES`."""

    name = "database notes"

    def __init__(self, shard: ShardParts) -> None:
        super().__init__(shard.node)
        self._shard = shard

    def interval(self) -> float:
        return LOOK_SECONDS

    async def run_pass(self) -> None:
        if self._shard.identity is None:
            return
        try:
            while await join_some(self._shard):
                await self._shard.node.pause()
        except CommandError as error:
            LOG.info("Notes of dropped databases stay for now", reason=error.message)


async def join_some(shard: ShardParts) -> bool:
    """Join some notes where there are too many; whether any were. Errors: those of the config servers."""
    node = shard.node
    collection = node.store.collection(DATABASES)
    if collection is None or collection.count <= incarnations.MAX_DATABASE_NOTES or not shard.records.may_write():
        return False
    rows = (document_to_python(raw) for _, raw in collection.records(node.engine))
    notes = list(islice((row for row in rows if row["_id"] != FENCE), JOINED_AT_ONCE))
    current = await shard.config_servers().database_timestamps([note["_id"] for note in notes])
    gone = [note for note in joinable(notes, current) if _stored(node, note["_id"]) == note]
    if gone:
        shard.records.write((DATABASES, joined(stored_fence(node), gone)), *((DATABASES, note["_id"]) for note in gone))
    return bool(gone)


def _stored(node: DataNode, name: str) -> dict[str, Any] | None:
    raw = stored_document(node, DATABASES, name)
    return None if raw is None else document_to_python(raw)
