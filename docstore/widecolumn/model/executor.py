"""The operations on keyspaces, column families and their rows, on this node or behind a router.

Plans run against an `Executor` and do not know where rows are stored. Reads return records as they are stored, dead
ones included, already merged over the members that the consistency level requires. Paths are as in
`docstore.widecolumn.model.keys`, below a row's prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.mutations import Entry

Stored = tuple[bytes, bytes]
"""(path, record)."""


class StoredFamily(NamedTuple):
    """A column family as the schema has it."""

    keyspace: Keyspace
    definition: ColumnFamily
    id: UUID


class RowWrite(NamedTuple):
    """Entries to merge into one row, atomically. No two entries have one path."""

    keyspace: str
    family: str
    key: bytes
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """Records of one row with paths in `[start, end)`, at most `limit` of them, from the end when `reverse`. `head`:
    also all that stand before its columns, as they were at the same moment.
    """

    keyspace: str
    family: str
    key: bytes
    start: bytes
    end: bytes
    reverse: bool = False
    limit: int = 1000
    head: bool = False


class RecordPage(NamedTuple):
    """The result of one read, in scan order. `more`: it was truncated, and continues after the last path."""

    entries: list[Stored]
    more: bool
    head: Sequence[Stored] = ()


class ObservedPage(NamedTuple):
    """A read and its result, for a conditional write."""

    request: PartitionRead
    page: RecordPage


@dataclass(frozen=True, slots=True, kw_only=True)
class RingScan:
    """Records of all rows with row keys (`docstore.widecolumn.model.keys`) from `start` to before `end`, in the order
    of tokens; an empty `end` is open. `after`: only records after that (row key, path). `statistics`: with those of
    the rows, for a copy of them.
    """

    keyspace: str
    family: str
    start: bytes = b""
    end: bytes = b""
    after: tuple[bytes, bytes] | None = None
    limit: int = 1000
    statistics: bool = False


class RingPage(NamedTuple):
    """Records by row. The last row may be truncated: it continues in the next page, which begins after `resume`."""

    rows: list[tuple[bytes, list[Stored]]]
    resume: tuple[bytes, bytes] | None


class Executor(Protocol):
    """See the module. Errors: those of `docstore.widecolumn.model.errors`."""

    def now(self) -> int:
        """Seconds since 1970, for times to live and local deletion times."""

    def timestamp(self) -> int:
        """Microseconds since 1970, higher than every one given before."""

    async def keyspaces(self) -> list[Keyspace]: ...

    async def keyspace(self, name: str) -> Keyspace | None: ...

    async def families(self, keyspace: str) -> list[StoredFamily]: ...

    async def family(self, keyspace: str, name: str) -> StoredFamily | None: ...

    async def create_keyspace(self, keyspace: Keyspace) -> None: ...

    async def alter_keyspace(self, keyspace: Keyspace) -> None:
        """Replace the definition of the keyspace with that name."""

    async def drop_keyspace(self, name: str) -> None: ...

    async def create_family(self, keyspace: str, family: ColumnFamily) -> StoredFamily: ...

    async def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        """Replace the definition of the column family with that name; its contents stay."""

    async def drop_family(self, keyspace: str, name: str) -> None: ...

    async def truncate(self, keyspace: str, name: str) -> None:
        """Remove all rows of a column family."""

    async def apply(self, writes: Sequence[RowWrite], level: Level) -> list[str]:
        """Merge mutations, each row's atomically. Return warnings about rows and values that have become too large."""

    async def apply_if(
        self, writes: Sequence[RowWrite], observed: Sequence[ObservedPage], level: Level
    ) -> list[str] | None:
        """Merge mutations of one row if the reads that were seen still hold at that moment; return None if not."""

    async def read(self, request: PartitionRead, level: Level) -> RecordPage: ...

    async def scan(self, request: RingScan, level: Level) -> RingPage: ...
