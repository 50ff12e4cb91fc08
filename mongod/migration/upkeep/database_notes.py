"""The notes of databases that are gone stay few: a primary joins the first of them into the fence.

See `docstore.sharding.ddl.incarnations` for why that refuses no less.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component
from docstore.sharding.ddl import incarnations
from docstore.sharding.ddl.incarnations import DATABASES, FENCE, joinable, joined
from mongod.migration.upkeep.database_fence import stored_fence, stored_note
from mongod.migration.upkeep.shard_task import ShardTask

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

LOG = component("SHARDING")
JOINED_AT_ONCE = 500


class DatabaseNotes(ShardTask):
    """Joins notes now and then, while there are more than `MAX_DATABASE_NOTES`."""

    name = "database notes"

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
    batch = [note for note in joinable(notes, current) if stored_note(node, note["_id"]) == note]
    if batch:
        shard.records.write(
            (DATABASES, joined(stored_fence(node), batch)), *((DATABASES, note["_id"]) for note in batch)
        )
    return bool(batch)
