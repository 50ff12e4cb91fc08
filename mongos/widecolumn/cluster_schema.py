"""The schema of all keyspaces in the cluster, for system tables and events. Asks each shard that holds keyspaces.

A client reads system tables before anything else, so an older schema is better than none: it is read from secondaries
while a shard has no primary, and taken from this router's last reading while no member of a shard, or no config server,
can be reached. Plans and DESCRIBE need the current schema and do not use this. A keyspace that this router could never
read is missing, and is announced as a new one when it can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.commands.concerns import ReadMode, ReadPreference
from docstore.errors import CommandError
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.executor import StoredFamily
from mongos.router import Router
from mongos.routing.requests import ShardReply
from mongos.routing.shards import CONFIG, each
from mongos.widecolumn.definition_cache import Schema, schema_from

_PRIMARY_PREFERRED = ReadPreference(ReadMode.PRIMARY_PREFERRED)
READING_SECONDS = 0.5
"""How long system tables wait for a shard. Drivers give each of their first requests two seconds."""
SILENT_SECONDS = 5.0
"""How long a shard that has not answered is not asked again."""


class LenientReader:
    """Asks shards for what system tables show, for as long as their readers have."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.homes: Mapping[str, str] = {}
        """The shards of all databases, as read last."""
        self.listed: dict[str, Mapping[str, Schema]] = {}
        """The keyspaces of each shard, as read last."""
        self._silent_until: dict[str, float] = {}

    async def ask(self, shard: str, db: str, command: Mapping[str, Any]) -> ShardReply | None:
        """Return the reply of a member; None if none can be had now."""
        clock = self.router.clock
        if clock() < self._silent_until.get(shard, 0.0):
            return None
        try:
            member = await self.router.shards.get(shard)
            return await member.command(
                db, command, repeatable=True, read_preference=_PRIMARY_PREFERRED, deadline=clock() + READING_SECONDS
            )
        except CommandError:
            self._silent_until[shard] = clock() + SILENT_SECONDS
            return None


class ClusterSchema:
    """All keyspaces (`SchemaReader`), read by `keyspaces`."""

    def __init__(self, reader: LenientReader) -> None:
        self._reader = reader
        self._schemas: dict[str, Schema] = {}

    async def keyspaces(self) -> list[Keyspace]:
        homes = await self._homes()

        async def read(shard: str) -> Mapping[str, Schema]:
            return await self._read(shard, {name for name, home in homes.items() if home == shard})

        for schemas in await each(sorted(set(homes.values())), read):
            self._schemas.update(schemas)
        return [self._schemas[name].keyspace for name in sorted(self._schemas)]

    async def keyspace(self, name: str) -> Keyspace | None:
        schema = self._schemas.get(name)
        return None if schema is None else schema.keyspace

    async def families(self, keyspace: str) -> list[StoredFamily]:
        schema = self._schemas.get(keyspace)
        return [] if schema is None else [schema.families[name].stored for name in sorted(schema.families)]

    async def _homes(self) -> Mapping[str, str]:
        """Read the shard of each database."""
        command = {"find": "databases", "projection": {"primary": 1}, "batchSize": 100_000}
        answer = await self._reader.ask(CONFIG, "config", command)
        if answer is not None:
            self._reader.homes = {row["_id"]: row["primary"] for row in answer.decoded()["cursor"]["firstBatch"]}
        return self._reader.homes

    async def _read(self, shard: str, names: set[str]) -> Mapping[str, Schema]:
        """Read those keyspaces from their shard."""
        answer = await self._reader.ask(shard, "admin", {"_wcSchemas": 1})
        if answer is not None:
            shown = {row["name"]: row for row in RawBSONDocument(answer.body)["schemas"]}
            self._reader.listed[shard] = {name: schema_from(name, shown[name]) for name in names & shown.keys()}
        listed = self._reader.listed.get(shard, {})
        return {name: listed[name] for name in names & listed.keys()}
