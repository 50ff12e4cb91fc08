"""What can be done with keyspaces, column families and their rows, wherever they are: on this node or behind a router.

Plans are carried out against an `Executor` and know nothing of where rows live. What is read are records as they are
stored, dead ones included, already merged over the members that the consistency level asks for. Paths are those of
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
    """A column family as it stands in the schema."""

    keyspace: Keyspace
    definition: ColumnFamily
    id: UUID


class RowWrite(NamedTuple):
    """What is merged into one row; it is applied as a whole. No two entries have one path."""

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
    """What one read gave, in the order of the walk. `more`: it was cut, and goes on behind the last path."""

    entries: list[Stored]
    more: bool
    head: Sequence[Stored] = ()


class ObservedPage(NamedTuple):
    """What a read gave."""

    wanted: PartitionRead
    page: RecordPage


@dataclass(frozen=True, slots=True, kw_only=True)
class RingScan:
    """Records of all rows with row keys (`docstore.widecolumn.model.keys`) from `start` to before `end`, in the order
    of tokens; an empty `end` is open. With `after`, only what stands behind that (row key, path). `statistics`: with
    those of the rows, for a copy of them.
    """

    keyspace: str
    family: str
    start: bytes = b""
    end: bytes = b""
    after: tuple[bytes, bytes] | None = None
    limit: int = 1000
    statistics: bool = False


class RingPage(NamedTuple):
    """Records by row. The last row may be cut: then it goes on in the next page, which begins after `resume`."""

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
        """Replace the definition of the column family with that name; what it holds stays as it is."""

    async def drop_family(self, keyspace: str, name: str) -> None: ...

    async def truncate(self, keyspace: str, name: str) -> None:
        """Take every row out of a column family."""

    async def apply(self, writes: Sequence[RowWrite], level: Level) -> list[str]:
        """Merge mutations, each row's as a whole; warnings about what has become too large."""

    async def apply_if(
        self, writes: Sequence[RowWrite], seen: Sequence[ObservedPage], level: Level
    ) -> list[str] | None:
        """Merge mutations of one row if what was seen of it still stands at that moment; None where it does not."""

    async def read(self, wanted: PartitionRead, level: Level) -> RecordPage: ...

    async def scan(self, wanted: RingScan, level: Level) -> RingPage: ...
