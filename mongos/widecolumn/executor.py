"""The wide-column mode over the shards: plans (`docstore.widecolumn.model.executor.Executor`), and the commands of
the column model, which use the same requests (`mongos.widecolumn.shard_requests`).

A request keeps its timestamp in all attempts: a repeated write changes nothing. Every request to a shard names the
definition of its plan; if the shard has another one, the plan is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from time import time
from typing import Any

import bson
from bson.binary import Binary
from bson.raw_bson import RawBSONDocument

from docstore.bson import append_fields, documents_array, get_field
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import family_absent
from docstore.widecolumn.model.executor import (
    ObservedPage,
    PartitionRead,
    RecordPage,
    RingPage,
    RingScan,
    RowWrite,
    Stored,
)
from docstore.widecolumn.model.mutations import pack_entries, unpack_entries
from docstore.widecolumn.model.record_pages import seen_document, unpack_rows
from docstore.widecolumn.model.requests import RowRange
from mongos.routing.requests import ShardReply
from mongos.routing.shards import each
from mongos.widecolumn.hints.writes import can_wait, keep
from mongos.widecolumn.owners import parts_of
from mongos.widecolumn.replies import warnings_of
from mongos.widecolumn.schema_executor import RouterSchema
from mongos.widecolumn.shard_requests import TIMESTAMPS, SchemaIsStale


class RouterExecutor(RouterSchema):
    """Satisfies `Executor` for one request."""

    @cached_property
    def _timestamp(self) -> int:
        return TIMESTAMPS.next()

    def now(self) -> int:
        return int(time())

    def timestamp(self) -> int:
        return self._timestamp

    async def apply(self, writes: Sequence[RowWrite], level: Level) -> list[str]:
        families: dict[tuple[str, str], list[RowWrite]] = {}
        for write in writes:
            families.setdefault((write.keyspace, write.family), []).append(write)

        async def family(place: tuple[str, str]) -> list[ShardReply]:
            command = {"_wcApply": place[1], "consistency": level.value}
            return await self._write_plan(*place, families[place], command)

        try:
            answers = await self.writing(level, lambda: each(list(families), family))
        except CommandError as error:
            if not can_wait(error, level):
                raise
            return await self._keep(families, level)
        return warnings_of([answer for replies in answers for answer in replies])

    async def _keep(self, families: Mapping[tuple[str, str], Sequence[RowWrite]], level: Level) -> list[str]:
        """Keep the writes as hints, one for each column family. Errors: Unavailable."""
        warnings = []
        for (keyspace, name), writes in families.items():
            family = await self.family(keyspace, name)
            if family is None:
                raise family_absent(name)
            command = _with_writes(bson.encode({"_wcApply": name}), _documents(writes))
            if await keep(self, keyspace, name, command, level, planned=family.id):
                warnings.append(f"the write to {keyspace}.{name} waits for a primary as a hint")
        return warnings

    async def apply_hint(self, keyspace: str, family: str, writes: Sequence[RowWrite], hint: bytes) -> list[str]:
        """Execute the writes of a hint. The shard checks `hint`, its origin."""
        base = bson.encode({"_wcApply": family, "consistency": Level.ONE.value, "hint": RawBSONDocument(hint)})
        rows = list(zip((write.key for write in writes), _documents(writes), strict=True))
        namespace = f"{keyspace}.{family}"
        return warnings_of(
            await self.writing(Level.ONE, lambda: self.write_at_owners(namespace, rows, partial(_with_writes, base)))
        )

    async def apply_if(
        self, writes: Sequence[RowWrite], seen: Sequence[ObservedPage], level: Level
    ) -> list[str] | None:
        """See the protocol. Sent once: after a success the row would differ from the reads."""
        if not writes:
            return []
        ((keyspace, family, *_),) = writes
        command = {
            "_wcApply": family,
            "seen": [seen_document(part) for part in seen],
            "consistency": level.value,
        }
        answers = await self.writing(
            level, lambda: self._write_plan(keyspace, family, writes, command, repeatable=False)
        )
        return None if get_field(answers[0].body, "outdated") else warnings_of(answers)

    async def _write_plan(
        self, keyspace: str, family: str, writes: Sequence[RowWrite], command: Mapping[str, Any], *,
        repeatable: bool = True,
    ) -> list[ShardReply]:  # fmt: skip
        base = await self._plan_request(keyspace, family, command)
        rows = list(zip((write.key for write in writes), _documents(writes), strict=True))
        with _planned(keyspace, family):
            return await self.write_at_owners(
                f"{keyspace}.{family}", rows, partial(_with_writes, base), repeatable=repeatable
            )

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
        request = await self._plan_request(wanted.keyspace, wanted.family, command)
        namespace = f"{wanted.keyspace}.{wanted.family}"
        with _planned(wanted.keyspace, wanted.family):
            answer = await self.reading(level, lambda: self.read_at_owner(namespace, wanted.key, request))
        has_more = get_field(answer.body, "more")
        assert has_more is not None, "a page says whether there is more"
        return RecordPage(_stored(answer, "entries"), has_more[1] == b"\1", _stored(answer, "head"))

    async def scan(self, wanted: RingScan, level: Level) -> RingPage:
        """Shard by shard, until there are enough records."""
        start = wanted.start if wanted.after is None else max(wanted.start, wanted.after[0])

        async def attempt(routing: Routing) -> RingPage:
            rows: list[tuple[bytes, list[Stored]]] = []
            remaining, after = wanted.limit, wanted.after
            for shard, part in parts_of(routing, [RowRange(start, wanted.end)]):
                if remaining <= 0:
                    return RingPage(rows, (rows[-1][0], rows[-1][1][-1][0]))
                command = _scan_command(wanted, part, after, remaining, level)
                request = await self._plan_request(wanted.keyspace, wanted.family, command)
                (answer,) = await self.ask(routing, [shard], request, reading=True)
                page_rows = unpack_rows(_binary(answer, "rows"))
                rows += page_rows
                remaining -= sum(len(records) for _, records in page_rows)
                after = None
                if get_field(answer.body, "row") is not None:
                    return RingPage(rows, (_binary(answer, "row"), _binary(answer, "path")))
            return RingPage(rows, None)

        with _planned(wanted.keyspace, wanted.family):
            return await self.reading(level, lambda: self.routed(f"{wanted.keyspace}.{wanted.family}", attempt))

    async def _plan_request(self, keyspace: str, family: str, command: Mapping[str, Any]) -> bytes:
        """The request with the definition that its plan was made by. SchemaIsStale where there is none."""
        definition = await self._definition(keyspace, family)
        if definition is None:
            raise SchemaIsStale(f"{keyspace}.{family}")
        return bson.encode({**command, "schema": Binary(definition.digest)})


@contextmanager
def _planned(keyspace: str, family: str) -> Iterator[None]:
    """Raise SchemaIsStale if the plan's column family does not exist."""
    try:
        yield
    except CommandError as error:
        if error.code != Code.NamespaceNotFound:
            raise
        raise SchemaIsStale(f"{keyspace}.{family}") from error


def _documents(writes: Sequence[RowWrite]) -> list[bytes]:
    return [bson.encode({"key": Binary(write.key), "entries": Binary(pack_entries(write.entries))}) for write in writes]


def _with_writes(base: bytes, documents: Sequence[bytes]) -> bytes:
    return append_fields(base, b"\x04writes\0" + documents_array(documents))


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
    value = get_field(answer.body, name)
    assert value is not None, f"the reply has {name}"
    return value[1][5:]


def _stored(answer: ShardReply, name: str) -> list[Stored]:
    return [(entry.path, entry.record) for entry in unpack_entries(_binary(answer, name))]
