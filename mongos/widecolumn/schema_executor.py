"""Definitions read and changed through a router.

The primary shard of a keyspace has the definitions; column families are spread over all shards from their creation, and
the shards that own rows follow the definitions there. A plan's change (`_wcDefine`) and a client's command that is
passed on take the same steps: only the request differs that the shard of the definitions gets.
"""

from __future__ import annotations

from typing import Any

import bson

from docstore.bson import append_fields, document_to_python, get_field
from docstore.commands.concerns import ReadPreference
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.ddl.requests import drop_collection
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.errors import change_timed_out, family_absent
from docstore.widecolumn.model.executor import StoredFamily
from mongos.routing.broadcast import coordinated, drop_whole_database
from mongos.routing.requests import ShardReply
from mongos.routing.shards import Shard
from mongos.routing.targeting import primary_of
from mongos.widecolumn.definition_cache import Definition, Schema, database_names, stored_schema
from mongos.widecolumn.owners import home_of, owners_of
from mongos.widecolumn.shard_requests import TIMESTAMPS, ShardRequests


def mark_of(keyspace: str) -> str:
    """Return the namespace by which requests on a keyspace as a whole are routed."""
    return f"{keyspace}.system.keyspace"


class RouterSchema(ShardRequests):
    """The part of an executor that reads and changes definitions. `fresh`: read them anew before use."""

    def __init__(self, context: Context, *, read_preference: ReadPreference | None = None, fresh: bool = False) -> None:
        super().__init__(context, read_preference=read_preference)
        self.used_kept = False
        """True if definitions were used that may be old."""
        self._fresh = fresh
        self._read: dict[str, Schema | None] = {}

    def again(self) -> None:
        """Read definitions anew from now on."""
        self.used_kept, self._fresh = False, True
        self._read.clear()

    async def keyspaces(self) -> list[Keyspace]:
        keyspaces = [await self.keyspace(name) for name in await database_names(self.router)]
        return [keyspace for keyspace in keyspaces if keyspace is not None]

    async def keyspace(self, name: str) -> Keyspace | None:
        schema = await self._schema(name)
        return None if schema is None else schema.keyspace

    async def families(self, keyspace: str) -> list[StoredFamily]:
        schema = await self._schema(keyspace)
        return [] if schema is None else [schema.families[name].stored for name in sorted(schema.families)]

    async def family(self, keyspace: str, name: str) -> StoredFamily | None:
        definition = await self._definition(keyspace, name)
        return None if definition is None else definition.stored

    async def _schema(self, keyspace: str) -> Schema | None:
        if keyspace in self._read:
            return self._read[keyspace]
        cached_schema = None if self._fresh else self.router.definitions.known(keyspace)
        if cached_schema is not None:
            self.used_kept = True
            return cached_schema
        self._read[keyspace] = schema = await self.router.definitions.read(self.router, keyspace)
        return schema

    async def _definition(self, keyspace: str, name: str) -> Definition | None:
        schema = await self._schema(keyspace)
        if schema is not None and name not in schema.families and keyspace not in self._read:
            self._read[keyspace] = schema = await self.router.definitions.read(self.router, keyspace)
        return None if schema is None else schema.families.get(name)

    def changed(self, keyspace: str) -> None:
        """Forget the definitions of a keyspace."""
        self.router.definitions.forget(keyspace)
        self._read.pop(keyspace, None)

    async def create_keyspace(self, keyspace: Keyspace) -> None:
        shard = await self.place_keyspace(keyspace.name)
        command = {"_wcDefine": "", "keyspace": keyspace.to_options(), "create": True}
        answer = await shard.command(keyspace.name, command)
        self.changed(keyspace.name)
        _check_safe(answer)

    async def place_keyspace(self, name: str) -> Shard:
        """Return the shard of a keyspace; create its database if it does not exist."""
        namespace = mark_of(name)
        if (await self.router.cache.refresh(namespace)).primary is None:
            command = requests.create_database(name, keyspace=True)
            await self.router.config.command("admin", command, repeatable=True)
            await self.router.cache.refresh(namespace)
        return await self.router.shards.get(primary_of(await self.router.cache.get(namespace)))

    async def alter_keyspace(self, keyspace: Keyspace) -> None:
        """Alter the keyspace on its shard first, then on all shards with rows of it."""
        command = bson.encode({"_wcDefine": "", "keyspace": keyspace.to_options()})
        answer = await self.at_home(mark_of(keyspace.name), command, repeatable=False)
        for shard in await self.router.shards.all():
            if shard.name == answer.shard:
                continue
            try:
                await shard.command(keyspace.name, command, repeatable=True)
            except CommandError as error:
                if error.code != Code.NamespaceNotFound:
                    raise
        self.changed(keyspace.name)
        _check_safe(answer)

    async def drop_keyspace(self, name: str) -> None:
        """Drop the keyspace on all shards, and its database on the config servers."""
        await drop_whole_database(self._context, name)
        self.changed(name)

    async def create_family(self, keyspace: str, family: ColumnFamily) -> StoredFamily:
        answer = await self.spread_family(keyspace, family.name, _definition_command(family, create=True))
        _check_safe(answer)
        stored_family = await self.family(keyspace, family.name)
        if stored_family is None:
            raise CommandError(Code.NamespaceNotFound, f"{keyspace}.{family.name} has been dropped")
        return stored_family

    async def spread_family(self, keyspace: str, name: str, request: bytes) -> ShardReply:
        """Create a sharded column family. Errors: NamespaceNotFound."""
        home_of(await self.router.cache.get(mark_of(keyspace)))
        await self.router.config.command("admin", requests.enable_sharding(keyspace, keyspace=True), repeatable=True)
        answer = await self.at_home(mark_of(keyspace), request, repeatable=False)
        self.router.cache.forget(f"{keyspace}.{name}")
        self.changed(keyspace)
        return answer

    async def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        answer = await self.at_home(mark_of(keyspace), _definition_command(family), repeatable=False)
        await self.copy_definition(keyspace, family.name)
        _check_safe(answer)

    async def copy_definition(self, keyspace: str, name: str) -> None:
        """Send a column family's definition, after a possible change, to the shards that own rows of it.

        A shard that has got rows meanwhile may have an older definition from their donor, so the routing is read
        again.
        """
        self.changed(keyspace)
        namespace = f"{keyspace}.{name}"
        holders: set[str] = set()
        while True:
            routing = await self.router.cache.refresh(namespace)
            home, *shards = owners_of(routing)
            targets = [other for other in shards if other not in holders]
            if not targets:
                return
            schema, definition = await self._stored_family(keyspace, name, home)
            command = requests.hold_column_family(
                namespace, definition["uuid"], definition["options"].raw, schema["keyspace"].raw
            )  # fmt: skip
            for other in targets:
                await (await self.router.shards.get(other)).command("admin", command, repeatable=True)
            holders.update(targets)

    async def drop_family(self, keyspace: str, name: str) -> None:
        namespace = f"{keyspace}.{name}"
        await self.router.cache.refresh(namespace)

        async def attempt(routing: Routing) -> None:
            home = home_of(routing)
            await self._stored_family(keyspace, name, home)
            if routing.collection is not None:
                await coordinated(self._context, routing, drop_collection(namespace, routing.collection.uuid))
                return
            await self.ask(routing, [home], bson.encode({"dropColumnFamily": name}), repeatable=False)

        try:
            await self.router.cache.routed(namespace, attempt)
        finally:
            self.router.cache.forget(namespace)
        self.changed(keyspace)

    async def _stored_family(self, keyspace: str, name: str, home: str) -> tuple[Any, Any]:
        """Return the definitions on a shard, and the column family's among them. NamespaceNotFound."""
        schema = await stored_schema(self.router, keyspace, home)
        family = next((row for row in schema.get("families", ()) if row["name"] == name), None)
        if family is None:
            raise family_absent(name)
        return schema, family

    async def truncate(self, keyspace: str, name: str) -> None:
        _check_safe(await self.truncate_at_owners(keyspace, name, bson.encode({"wcTruncate": name})))

    async def truncate_at_owners(self, keyspace: str, name: str, request: bytes) -> ShardReply:
        """Truncate on every shard that may have rows; return the answer of the shard with the definitions, or an
        answer that may be rolled back.

        All shards truncate under one routing and note the same time. A shard that is moving rows away aborts that, so
        no row escapes.
        """
        stamped = append_fields(request, b"\x12truncatedAt\0" + TIMESTAMPS.next().to_bytes(8, "little", signed=True))

        async def attempt(routing: Routing) -> ShardReply:
            answers = await self.ask(routing, owners_of(routing), stamped)
            unsafe = (answer for answer in answers if get_field(answer.body, "writeConcernError") is not None)
            return next(unsafe, answers[0])

        try:
            return await self.routed(f"{keyspace}.{name}", attempt)
        finally:
            self.changed(keyspace)


def _check_safe(answer: ShardReply) -> None:
    """Raise TimedOut if a change of the schema may be rolled back."""
    failure = get_field(answer.body, "writeConcernError")
    if failure is not None:
        raise change_timed_out(document_to_python(failure[1])["errmsg"])


def _definition_command(family: ColumnFamily, *, create: bool = False) -> bytes:
    command: dict[str, Any] = {"_wcDefine": family.name, "family": family.to_options()}
    return bson.encode({**command, "create": True} if create else command)
