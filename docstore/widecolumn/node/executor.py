"""Plans of the wide-column mode carried out on this node (`docstore.widecolumn.model.executor.Executor`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from docstore.commands.context import Context
from docstore.key_layout import family_end, family_prefix
from docstore.node.node import DataNode, node_of
from docstore.node.slices import PAUSE, Steps, finish_steps
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import change_timed_out
from docstore.widecolumn.model.executor import (
    ObservedPage,
    PartitionRead,
    RecordPage,
    RingPage,
    RingScan,
    RowWrite,
    Stored,
    StoredFamily,
)
from docstore.widecolumn.model.hint_origin import HintOrigin
from docstore.widecolumn.model.keys import STATISTICS, encode_row_key
from docstore.widecolumn.model.slices import Cells, finished
from docstore.widecolumn.model.slices import Steps as PlainSteps
from docstore.widecolumn.node.keyspaces import FamilyStore, stored, wide_of
from docstore.widecolumn.node.merged_reads import Quorum
from docstore.widecolumn.node.read_state import ReadState, WideCells, is_owned, owned_rows, read_own
from docstore.widecolumn.node.record_pages import MAX_BYTES, read_page, records, same_page
from docstore.widecolumn.node.replica_reads import RecordRange
from docstore.widecolumn.node.replicas import check_read
from docstore.widecolumn.node.row_reads import RowQuery, quorum_of
from docstore.widecolumn.node.row_writes import ConditionFailed, RowChange, write_rows
from docstore.widecolumn.node.schema_changes import SchemaChange, change_schema

T = TypeVar("T")
_STEP = 256
_ROWS_AT_ONCE = 64


class NodeExecutor:
    """Satisfies `Executor` for one request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._node = node_of(context)
        self._wide = wide_of(self._node)

    def now(self) -> int:
        return self._wide.now()

    def timestamp(self) -> int:
        return self._wide.timestamp()

    # The schema

    async def keyspaces(self) -> list[Keyspace]:
        return self._wide.keyspaces()

    async def keyspace(self, name: str) -> Keyspace | None:
        return self._wide.keyspace(name)

    async def families(self, keyspace: str) -> list[StoredFamily]:
        return [stored(family) for family in self._wide.families(keyspace)]

    async def family(self, keyspace: str, name: str) -> StoredFamily | None:
        family = self._wide.find(keyspace, name)
        return None if family is None else stored(family)

    async def create_keyspace(self, keyspace: Keyspace) -> None:
        await _change(self._context, lambda schema: schema.create_keyspace(keyspace))

    async def alter_keyspace(self, keyspace: Keyspace) -> None:
        await _change(self._context, lambda schema: schema.alter_keyspace(keyspace))

    async def drop_keyspace(self, name: str) -> None:
        await _change(self._context, lambda schema: schema.drop_keyspace(name))

    async def create_family(self, keyspace: str, family: ColumnFamily) -> StoredFamily:
        await _change(self._context, lambda schema: schema.create_family(keyspace, family))
        return stored(self._found(keyspace, family.name))

    async def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        await _change(self._context, lambda schema: schema.alter_family(keyspace, family))

    async def drop_family(self, keyspace: str, name: str) -> None:
        def act(schema: SchemaChange) -> None:
            schema.drop_family(keyspace, name)

        await _change(self._context, act)

    async def truncate(self, keyspace: str, name: str) -> None:
        await _change(self._context, lambda schema: schema.truncate(keyspace, name))

    # Rows

    async def apply(self, writes: Sequence[RowWrite], level: Level, hint: HintOrigin | None = None) -> list[str]:
        rows = [RowChange(self._found(write.keyspace, write.family), write.key, write.entries) for write in writes]
        return await finish_steps(self._context, write_rows(self._context, self._node, rows, level, hint=hint))

    async def apply_if(
        self, writes: Sequence[RowWrite], seen: Sequence[ObservedPage], level: Level
    ) -> list[str] | None:
        rows = [RowChange(self._found(write.keyspace, write.family), write.key, write.entries) for write in writes]
        if not rows:
            return []
        ((family, key, _),) = rows
        row_key = encode_row_key(family.keyspace.partitioner, key)

        def unchanged() -> bool:
            # A truncation while the write waited has given the family another ident.
            prefix = family_prefix(family.collection.ident) + row_key
            return all(same_page(_read_now(self._node, prefix, part.request), part.page) for part in seen)

        try:
            return await finish_steps(self._context, write_rows(self._context, self._node, rows, level, unchanged))
        except ConditionFailed:
            return None

    async def read(self, wanted: PartitionRead, level: Level) -> RecordPage:
        family = self._found(wanted.keyspace, wanted.family)
        needed = check_read(self._node, family.keyspace, level)
        row_key = encode_row_key(family.keyspace.partitioner, wanted.key)
        if needed > 1:
            return await read_merged(_quorum(self._context, family, level, needed), row_key, wanted)
        prefix = family.collection.rows_prefix + row_key
        return await finish_steps(
            self._context,
            read_own(self._context, family, level, lambda state: page_steps(state, prefix, wanted), row_key),
        )

    async def scan(self, wanted: RingScan, level: Level) -> RingPage:
        family = self._found(wanted.keyspace, wanted.family)
        needed = check_read(self._node, family.keyspace, level)
        if needed > 1:
            return await self._scan_merged(family, wanted, level, needed)
        return await self._read_own(family, level, lambda state: scan_steps(family, state, wanted))

    async def _scan_merged(self, found: FamilyStore, wanted: RingScan, level: Level, needed: int) -> RingPage:
        """Return a page of rows, each as the furthest of several members has it."""
        quorum = _quorum(self._context, found, level, needed)
        owned = await self._read_own(found, level, owned_rows)
        rows: list[tuple[bytes, list[Stored]]] = []
        remaining = wanted.limit
        after = wanted.after
        row_keys = [] if after is None else [after[0]]
        at = wanted.start if after is None else after[0] + b"\xff"
        while remaining > 0:
            if not row_keys:
                row_keys = await quorum.list_rows(at, wanted.end, min(remaining, _ROWS_AT_ONCE), owned)
                if not row_keys:
                    return RingPage(rows, None)
                at = row_keys[-1] + b"\xff"
            row_key = row_keys.pop(0)
            start = after[1] + b"\0" if after is not None and after[0] == row_key else b""
            page = (await quorum.read(RecordRange(row_key, (), start, b"\xff", False, remaining))).page
            if page.entries:
                rows.append((row_key, page.entries))
                remaining -= len(page.entries)
            if page.more:
                return RingPage(rows, (row_key, page.entries[-1][0]))
        return RingPage(rows, (rows[-1][0], rows[-1][1][-1][0]))

    def _found(self, keyspace: str, name: str) -> FamilyStore:
        family = self._wide.existing(keyspace, name, self._context.command.name)
        self._context = self._context.about(family.collection.ns)
        return family

    def _read_own(self, family: FamilyStore, level: Level, read: Callable[[ReadState], Steps[T]]) -> Awaitable[T]:
        """Run `read` on the state that this member shows, and return its result."""
        return finish_steps(self._context, read_own(self._context, family, level, read))


async def _change(context: Context, act: Callable[[SchemaChange], None]) -> None:
    """Change the schema. Errors: TimedOut where the change may be lost again."""
    failure = (await change_schema(context, act)).get("writeConcernError")
    if failure is not None:
        raise change_timed_out(failure["errmsg"])


def _quorum(context: Context, found: FamilyStore, level: Level, needed: int) -> Quorum:
    return quorum_of(RowQuery(context, found, level), needed)


def _read_now(node: DataNode, prefix: bytes, wanted: PartitionRead) -> RecordPage:
    """Return this node's current records of a row."""
    return finished(page_steps(WideCells(node.engine), prefix, wanted))


def page_steps(cells: Cells, prefix: bytes, wanted: PartitionRead) -> PlainSteps[RecordPage]:
    """Return the records of a row, given by the prefix of their keys."""
    return read_page(
        cells, prefix, wanted.start, wanted.end, reverse=wanted.reverse, limit=wanted.limit, head=wanted.head
    )


async def read_merged(quorum: Quorum, row_key: bytes, wanted: PartitionRead) -> RecordPage:
    """Return the records of a row as the furthest of several members has them."""
    record_range = RecordRange(row_key, (), wanted.start, wanted.end, wanted.reverse, wanted.limit, wanted.head)
    return (await quorum.read(record_range)).page


def scan_steps(found: FamilyStore, state: ReadState, wanted: RingScan) -> Steps[RingPage]:
    """The records of the rows of a part of the ring that this node owns."""
    partitioner = found.keyspace.partitioner
    base = family_prefix(found.collection.ident)
    start = base + (wanted.start if wanted.after is None else wanted.after[0] + wanted.after[1] + b"\0")
    end = base + wanted.end if wanted.end else family_end(found.collection.ident)
    rows: list[tuple[bytes, list[Stored]]] = []
    record_count = size = 0
    standing, row_owned = b"", True
    for position, (row_key, path, record) in enumerate(records(state, start, end, partitioner), 1):
        if not position % _STEP:
            yield PAUSE
        if row_key != standing:
            standing = row_key
            row_owned = is_owned(found, row_key, state.owned)
        if not row_owned or (path == STATISTICS and not wanted.statistics):
            continue
        if record_count >= wanted.limit or size > MAX_BYTES:
            return RingPage(rows, (rows[-1][0], rows[-1][1][-1][0]))
        if not rows or rows[-1][0] != row_key:
            rows.append((row_key, []))
        rows[-1][1].append((path, record))
        record_count += 1
        size += len(path) + len(record)
    return RingPage(rows, None)


def executor_of(context: Context) -> NodeExecutor:
    """The executor of a request."""
    return NodeExecutor(context)
