"""Definitions as plans of the wide-column mode read and change them through a router."""

from __future__ import annotations

from typing import Any

import bson

from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.executor import StoredFamily
from mongos.router import Router
from mongos.routing.cache import version_for
from mongos.routing.requests import versioned
from mongos.routing.shards import each
from mongos.widecolumn.definition_cache import Definition, Schema
from mongos.widecolumn.owners import home_of, owners_of
from mongos.widecolumn.schema_changes import (
    allow_spreading,
    copy_definition,
    drop_family_of,
    forget_keyspace,
    place_keyspace,
)


class RouterSchema:
    """The part of an executor that reads and changes definitions. `fresh`: they are read before they are used."""

    def __init__(self, router: Router, *, fresh: bool = False) -> None:
        self.used_kept = False
        """Whether definitions were used that may be old."""
        self._router = router
        self._fresh = fresh
        self._read: dict[str, Schema | None] = {}

    def again(self) -> None:
        """Read definitions anew from now on."""
        self.used_kept, self._fresh = False, True
        self._read.clear()

    async def keyspaces(self) -> list[Keyspace]:
        command = {"find": "databases", "projection": {"_id": 1}, "batchSize": 100_000}
        answer = await self._router.config.command("config", command, repeatable=True)
        names = sorted(row["_id"] for row in answer.decoded()["cursor"]["firstBatch"])
        found = [await self.keyspace(name) for name in names]
        return [keyspace for keyspace in found if keyspace is not None]

    async def keyspace(self, name: str) -> Keyspace | None:
        schema = await self._schema(name)
        return None if schema is None else schema.keyspace

    async def families(self, keyspace: str) -> list[StoredFamily]:
        schema = await self._schema(keyspace)
        return [] if schema is None else [schema.families[name].stored for name in sorted(schema.families)]

    async def family(self, keyspace: str, name: str) -> StoredFamily | None:
        found = await self._definition(keyspace, name)
        return None if found is None else found.stored

    async def _schema(self, keyspace: str) -> Schema | None:
        if keyspace in self._read:
            return self._read[keyspace]
        kept = None if self._fresh else self._router.definitions.known(keyspace)
        if kept is not None:
            self.used_kept = True
            return kept
        self._read[keyspace] = schema = await self._router.definitions.read(self._router, keyspace)
        return schema

    async def _definition(self, keyspace: str, name: str) -> Definition | None:
        schema = await self._schema(keyspace)
        if schema is not None and name not in schema.families and keyspace not in self._read:
            self._read[keyspace] = schema = await self._router.definitions.read(self._router, keyspace)
        return None if schema is None else schema.families.get(name)

    def _changed(self, keyspace: str) -> None:
        self._router.definitions.forget(keyspace)
        self._read.pop(keyspace, None)

    async def create_keyspace(self, keyspace: Keyspace) -> None:
        shard = await place_keyspace(self._router, keyspace.name)
        await shard.command(keyspace.name, {"_wcDefine": "", "keyspace": keyspace.to_options(), "create": True})
        self._changed(keyspace.name)

    async def alter_keyspace(self, keyspace: Keyspace) -> None:
        """On its shard first, then wherever rows of it are."""
        command = {"_wcDefine": "", "keyspace": keyspace.to_options()}
        home = await self._home(keyspace.name)
        await self._define(home, keyspace.name, command)
        for shard in await self._router.shards.all():
            if shard.name == home:
                continue
            try:
                await shard.command(keyspace.name, command, repeatable=True)
            except CommandError as error:
                if error.code != Code.NamespaceNotFound:
                    raise
        self._changed(keyspace.name)

    async def drop_keyspace(self, name: str) -> None:
        await forget_keyspace(self._router, name)
        self._changed(name)

    async def create_family(self, keyspace: str, family: ColumnFamily) -> StoredFamily:
        await allow_spreading(self._router, keyspace)
        command = {"_wcDefine": family.name, "family": family.to_options(), "create": True}
        await self._define(await self._home(keyspace), keyspace, command)
        self._router.cache.forget(f"{keyspace}.{family.name}")
        self._changed(keyspace)
        made = await self.family(keyspace, family.name)
        if made is None:
            raise CommandError(Code.NamespaceNotFound, f"{keyspace}.{family.name} has been dropped")
        return made

    async def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        command = {"_wcDefine": family.name, "family": family.to_options()}
        await self._define(await self._home(keyspace), keyspace, command)
        self._changed(keyspace)
        await copy_definition(self._router, keyspace, family.name)

    async def drop_family(self, keyspace: str, name: str) -> None:
        await drop_family_of(self._router, keyspace, name)
        self._changed(keyspace)

    async def truncate(self, keyspace: str, name: str) -> None:
        async def attempt(routing: Routing) -> None:
            async def one(shard: str) -> None:
                body = versioned(bson.encode({"wcTruncate": name}), version_for(routing, shard))
                await (await self._router.shards.get(shard)).command(keyspace, body, repeatable=True)

            await each(owners_of(routing), one)

        await self._router.cache.routed(f"{keyspace}.{name}", attempt)

    async def _home(self, keyspace: str) -> str:
        return home_of(await self._router.cache.get(f"{keyspace}.system.keyspace"))

    async def _define(self, shard: str, keyspace: str, command: dict[str, Any]) -> None:
        await (await self._router.shards.get(shard)).command(keyspace, command)
