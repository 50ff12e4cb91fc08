"""An `Executor` over dictionaries: what a single member does, without disk, network or clock."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from sortedcontainers import SortedDict

from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import already_exists
from docstore.widecolumn.model.executor import (
    ObservedPage,
    PartitionRead,
    RecordPage,
    RingPage,
    RingScan,
    RowWrite,
    StoredFamily,
)
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.mutations import merged_record


class MemoryExecutor:
    """`seconds` is the clock. `largest`: at most so many entries in one page, however many are asked for."""

    def __init__(self, largest: int = 1 << 30) -> None:
        self.seconds = 1_000_000
        self.largest = largest
        self.reads = 0
        self._stamp = 0
        self._keyspaces: dict[str, Keyspace] = {}
        self._families: dict[tuple[str, str], StoredFamily] = {}
        self._rows: dict[tuple[str, str], SortedDict] = {}

    def now(self) -> int:
        return self.seconds

    def timestamp(self) -> int:
        self._stamp += 1
        return self.seconds * 1_000_000 + self._stamp

    async def keyspaces(self) -> list[Keyspace]:
        return list(self._keyspaces.values())

    async def keyspace(self, name: str) -> Keyspace | None:
        return self._keyspaces.get(name)

    async def families(self, keyspace: str) -> list[StoredFamily]:
        return [stored for (space, _), stored in self._families.items() if space == keyspace]

    async def family(self, keyspace: str, name: str) -> StoredFamily | None:
        return self._families.get((keyspace, name))

    async def create_keyspace(self, keyspace: Keyspace) -> None:
        if keyspace.name in self._keyspaces:
            raise already_exists("keyspace", keyspace.name)
        self._keyspaces[keyspace.name] = keyspace

    async def alter_keyspace(self, keyspace: Keyspace) -> None:
        self._keyspaces[keyspace.name] = keyspace
        for (space, name), stored in self._families.items():
            if space == keyspace.name:
                self._families[space, name] = stored._replace(keyspace=keyspace)

    async def drop_keyspace(self, name: str) -> None:
        del self._keyspaces[name]
        for where in [where for where in self._families if where[0] == name]:
            await self.drop_family(*where)

    async def create_family(self, keyspace: str, family: ColumnFamily) -> StoredFamily:
        stored = StoredFamily(self._keyspaces[keyspace], family, uuid.uuid5(uuid.NAMESPACE_OID, f"{self._stamp}"))
        self._stamp += 1
        self._families[keyspace, family.name] = stored
        self._rows[keyspace, family.name] = SortedDict()
        return stored

    async def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        stored = self._families[keyspace, family.name]
        self._families[keyspace, family.name] = stored._replace(definition=family)

    async def drop_family(self, keyspace: str, name: str) -> None:
        del self._families[keyspace, name]
        del self._rows[keyspace, name]

    async def truncate(self, keyspace: str, name: str) -> None:
        self._rows[keyspace, name].clear()

    async def apply(self, writes: Sequence[RowWrite], level: Level) -> list[str]:
        for write in writes:
            row = self._row(write.keyspace, write.family, write.key, make=True)
            for path, record, _ in write.entries:
                row[path] = merged_record(row.get(path), record)
        return []

    async def apply_if(
        self, writes: Sequence[RowWrite], seen: Sequence[ObservedPage], level: Level
    ) -> list[str] | None:
        for part in seen:
            if await self.read(part.request, level) != part.page:
                return None
        return await self.apply(writes, level)

    async def read(self, wanted: PartitionRead, level: Level) -> RecordPage:
        self.reads += 1
        row = self._row(wanted.keyspace, wanted.family, wanted.key)
        paths = list(row.irange(wanted.start, wanted.end, (True, False), wanted.reverse))
        limit = min(wanted.limit, self.largest)
        head = [(path, row[path]) for path in row.irange(b"\0", b"\x20", (True, False))] if wanted.head else []
        return RecordPage([(path, row[path]) for path in paths[:limit]], len(paths) > limit, head)

    async def scan(self, wanted: RingScan, level: Level) -> RingPage:
        self.reads += 1
        rows: list[tuple[bytes, list[tuple[bytes, bytes]]]] = []
        limit = min(wanted.limit, self.largest)
        for given, (row_key, path, record) in enumerate(self._walk(wanted)):
            if given == limit:
                last_tail, records = rows[-1]
                return RingPage(rows, (last_tail, records[-1][0]))
            if not rows or rows[-1][0] != row_key:
                rows.append((row_key, []))
            rows[-1][1].append((path, record))
        return RingPage(rows, None)

    def _walk(self, wanted: RingScan) -> Iterator[tuple[bytes, bytes, bytes]]:
        for row_key, row in self._rows[wanted.keyspace, wanted.family].items():
            for path, record in row.items():
                key = row_key + path
                if key < wanted.start or (wanted.end and key >= wanted.end):
                    continue
                if wanted.after is None or (row_key, path) > wanted.after:
                    yield row_key, path, record

    def _row(self, keyspace: str, family: str, key: bytes, *, make: bool = False) -> SortedDict:
        row_key = encode_row_key(self._keyspaces[keyspace].partitioner, key)
        rows = self._rows[keyspace, family]
        if make:
            found: SortedDict = rows.setdefault(row_key, SortedDict())
            return found
        return rows.get(row_key, SortedDict())
