"""Plans of the wide-column mode carried out over the shards (`docstore.widecolumn.model.executor.Executor`).

One request has one timestamp, however often it is tried: a write that is sent again changes nothing. What a plan was
made by is said with every request to a shard; where that has another definition, the plan is made anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time
from typing import Any, TypeVar

import bson
from bson.binary import Binary

from docstore.bson import get_field
from docstore.commands.concerns import PRIMARY
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import STALE_SCHEMA, family_absent
from docstore.widecolumn.model.executor import PartitionRead, RecordPage, RingPage, RingScan, RowWrite, Seen, Stored
from docstore.widecolumn.model.mutations import pack_entries, unpack_entries
from docstore.widecolumn.model.record_pages import seen_document, unpack_rows
from docstore.widecolumn.model.requests import RowRange
from mongos.router import router_of
from mongos.routing.cache import version_for
from mongos.routing.requests import ShardReply, versioned
from mongos.routing.shards import each
from mongos.routing.targeting import Target
from mongos.widecolumn.hints.writes import can_wait, keep
from mongos.widecolumn.owners import owner_of, parts_of
from mongos.widecolumn.reads import warnings_of
from mongos.widecolumn.schema_executor import RouterSchema
from mongos.widecolumn.shard_requests import TIMESTAMPS, by_routing, from_members
from mongos.widecolumn.writes import account, to_primaries

T = TypeVar("T")


class SchemaIsStale(Exception):
    """A shard has another definition of the column family than the one that the plan was made by."""

    def __init__(self, keyspace: str, family: str) -> None:
        super().__init__(f"{keyspace}.{family}")
        self.keyspace = keyspace
        self.family = family


class RouterExecutor(RouterSchema):
    """Satisfies `Executor` for one request."""

    def __init__(self, context: Context, *, fresh: bool = False) -> None:
        super().__init__(router_of(context), fresh=fresh)
        self._context = context
        self._timestamp = TIMESTAMPS.next()

    def now(self) -> int:
        return int(time())

    def timestamp(self) -> int:
        return self._timestamp

    async def apply(self, writes: Sequence[RowWrite], level: Level) -> list[str]:
        families: dict[tuple[str, str], list[RowWrite]] = {}
        for write in writes:
            families.setdefault((write.keyspace, write.family), []).append(write)

        async def family(place: tuple[str, str]) -> list[str]:
            return await self._apply(*place, families[place], level)

        async def all_of_them() -> list[list[str]]:
            return await each(list(families), family)

        try:
            found = await to_primaries(self._context, level, all_of_them)
        except CommandError as error:
            if not can_wait(error, level):
                raise
            return await self._keep(families, level)
        return [warning for warnings in found for warning in warnings]

    async def _keep(self, families: Mapping[tuple[str, str], Sequence[RowWrite]], level: Level) -> list[str]:
        """Keep the writes as hints, one for each column family. Errors: Unavailable."""
        warnings = []
        for (keyspace, name), writes in families.items():
            found = await self.family(keyspace, name)
            if found is None:
                raise family_absent(name)
            command = {
                "_wcApply": name,
                "familyId": Binary(found.id.bytes),
                "writes": [_write_document(write) for write in writes],
            }
            if await keep(self._router, keyspace, bson.encode(command), level):
                warnings.append(f"the write to {keyspace}.{name} waits for a primary as a hint")
        return warnings

    async def _apply(self, keyspace: str, family: str, writes: Sequence[RowWrite], level: Level) -> list[str]:
        async def attempt(routing: Routing) -> list[str]:
            groups: dict[str, list[tuple[Target, RowWrite]]] = {}
            for write in writes:
                target = owner_of(routing, write.key)
                groups.setdefault(target.shards[0], []).append((target, write))

            async def one(shard: str) -> ShardReply:
                rows = [_write_document(write) for _, write in groups[shard]]
                command = {"_wcApply": family, "writes": rows, "consistency": level.value}
                return await self._ask(keyspace, routing, shard, command, family)

            answers = await each(list(groups), one)
            for target, write in (placed for group in groups.values() for placed in group):
                await account(self._router, routing, target, _size(write))
            return warnings_of(answers)

        return await self._routed(keyspace, family, attempt)

    async def apply_if(self, writes: Sequence[RowWrite], seen: Sequence[Seen], level: Level) -> list[str] | None:
        """Sent once: what has been done is not as it was seen any more."""
        if not writes:
            return []
        (write,) = writes
        command = {
            "_wcApply": write.family,
            "writes": [_write_document(write)],
            "seen": [seen_document(part) for part in seen],
            "consistency": level.value,
        }

        async def attempt(routing: Routing) -> ShardReply:
            target = owner_of(routing, write.key)
            shard = target.shards[0]
            answer = await self._ask(write.keyspace, routing, shard, command, write.family, repeatable=False)
            await account(
                self._router, routing, target, sum(len(part.path) + len(part.record) for part in write.entries)
            )
            return answer

        async def applied() -> ShardReply:
            return await self._routed(write.keyspace, write.family, attempt)

        answer = await to_primaries(self._context, level, applied)
        return None if get_field(answer.body, "outdated") else warnings_of([answer])

    async def read(self, wanted: PartitionRead, level: Level) -> RecordPage:
        command = {
            "_wcReadRow": wanted.family,
            "key": Binary(wanted.key),
            "start": Binary(wanted.start),
            "end": Binary(wanted.end),
            "reverse": wanted.reverse,
            "limit": wanted.limit,
            "head": wanted.head,
            "consistency": level.value,
        }

        async def attempt(routing: Routing) -> ShardReply:
            shard = owner_of(routing, wanted.key).shards[0]
            return await self._ask(wanted.keyspace, routing, shard, command, wanted.family, reading=True)

        reading = self._routed(wanted.keyspace, wanted.family, attempt)
        answer = await from_members(self._context, level, reading)
        more = get_field(answer.body, "more")
        assert more is not None, "a portion says whether there is more"
        return RecordPage(_stored(answer, "entries"), more[1] == b"\1", _stored(answer, "head"))

    async def scan(self, wanted: RingScan, level: Level) -> RingPage:
        """Shard by shard, until there are enough records."""
        start = wanted.start if wanted.after is None else max(wanted.start, wanted.after[0])

        async def attempt(routing: Routing) -> RingPage:
            rows: list[tuple[bytes, list[Stored]]] = []
            left, after = wanted.limit, wanted.after
            for shard, part in parts_of(routing, [RowRange(start, wanted.end)]):
                if left <= 0:
                    return RingPage(rows, (rows[-1][0], rows[-1][1][-1][0]))
                command = _scan_command(wanted, part, after, left, level)
                answer = await self._ask(wanted.keyspace, routing, shard, command, wanted.family, reading=True)
                found = unpack_rows(_binary(answer, "rows"))
                rows += found
                left -= sum(len(records) for _, records in found)
                after = None
                if get_field(answer.body, "row") is not None:
                    return RingPage(rows, (_binary(answer, "row"), _binary(answer, "path")))
            return RingPage(rows, None)

        return await from_members(self._context, level, self._routed(wanted.keyspace, wanted.family, attempt))

    async def _routed(self, keyspace: str, family: str, attempt: Callable[[Routing], Awaitable[T]]) -> T:
        """`by_routing`. SchemaIsStale where the column family is gone, or its keyspace."""
        try:
            return await by_routing(self._router, f"{keyspace}.{family}", attempt)
        except CommandError as error:
            if error.code != Code.NamespaceNotFound:
                raise
            raise SchemaIsStale(keyspace, family) from error

    async def _ask(
        self, keyspace: str, routing: Routing, shard: str, command: Mapping[str, Any], family: str, *,
        reading: bool = False, repeatable: bool = True,
    ) -> ShardReply:  # fmt: skip
        """One request to one shard. SchemaIsStale where that works by another definition of `family`."""
        context = self._context
        body = versioned(bson.encode(await self._with_schema(keyspace, family, command)), version_for(routing, shard))
        try:
            return await (await self._router.shards.get(shard)).command(
                keyspace,
                body,
                read_preference=context.read_preference if reading else PRIMARY,
                repeatable=repeatable,
                deadline=context.deadline,
            )
        except CommandError as error:
            if STALE_SCHEMA in error.extra:
                raise SchemaIsStale(keyspace, family) from error
            raise

    async def _with_schema(self, keyspace: str, family: str, command: Mapping[str, Any]) -> Mapping[str, Any]:
        definition = await self._definition(keyspace, family)
        if definition is None:
            raise SchemaIsStale(keyspace, family)
        return {**command, "schema": Binary(definition.digest)}


def _size(write: RowWrite) -> int:
    return sum(len(entry.path) + len(entry.record) for entry in write.entries)


def _write_document(write: RowWrite) -> dict[str, Any]:
    return {"key": Binary(write.key), "entries": Binary(pack_entries(write.entries))}


def _scan_command(
    wanted: RingScan, part: RowRange, after: tuple[bytes, bytes] | None, limit: int, level: Level
) -> dict[str, Any]:
    command: dict[str, Any] = {
        "_wcScan": wanted.family,
        "start": Binary(part.start),
        "end": Binary(part.end),
        "limit": limit,
        "statistics": wanted.statistics,
        "consistency": level.value,
    }
    if after is not None:
        command |= {"row": Binary(after[0]), "path": Binary(after[1])}
    return command


def _binary(answer: ShardReply, name: str) -> bytes:
    found = get_field(answer.body, name)
    assert found is not None, f"the reply has {name}"
    return found[1][5:]


def _stored(answer: ShardReply, name: str) -> list[Stored]:
    return [(entry.path, entry.record) for entry in unpack_entries(_binary(answer, name))]
