"""An executor that has the system keyspaces beside those of another one.

Their tables are made when they are read, in the form of stored records; so every SELECT that works on a table works on
them. Writes and changes are refused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence

from docstore.errors import Code
from docstore.widecolumn.cql.errors import UNAUTHORIZED, CqlError
from docstore.widecolumn.cql.plan.partition_keys import joined
from docstore.widecolumn.cql.schema.describe import SchemaReader
from docstore.widecolumn.cql.schema.layout import column_path, encode_clustering_key, marker_entry
from docstore.widecolumn.cql.schema.tables import Table, table_of
from docstore.widecolumn.cql.system.contents import KeyspaceSchema, Row, Schema, SystemFacts, rows_of, schema_version
from docstore.widecolumn.cql.system.definitions import FAMILIES, KEYSPACES, TABLES
from docstore.widecolumn.cql.system.topology import Topology
from docstore.widecolumn.model.cells import value_cell
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.executor import (
    Executor,
    ObservedPage,
    PartitionRead,
    RecordPage,
    RingPage,
    RingScan,
    RowWrite,
    Stored,
    StoredFamily,
)
from docstore.widecolumn.model.keys import encode_row_key

_WRITTEN_AT = 0
_Rows = list[tuple[bytes, list[Stored]]]
"""(row key, records in the order of their paths), in the order of row keys."""


def is_system(keyspace: str) -> bool:
    """True for a keyspace that is made here."""
    return keyspace in KEYSPACES


async def schema_of(reader: SchemaReader) -> list[KeyspaceSchema]:
    """Read the keyspaces and tables of CQL, in the order of their names."""
    schema: list[KeyspaceSchema] = []
    for keyspace in sorted(await reader.keyspaces(), key=lambda keyspace: keyspace.name):
        families = await reader.families(keyspace.name)
        tables = [table_of(*family) for family in families if family.definition.table is not None]
        schema.append(KeyspaceSchema(keyspace, sorted(tables, key=lambda table: table.name)))
    return schema


class SystemSchema:
    """A schema with the system keyspaces beside those of `reader`, but not among the listed ones (`SchemaReader`)."""

    def __init__(self, reader: SchemaReader) -> None:
        self._reader = reader

    async def keyspaces(self) -> list[Keyspace]:
        """Return the keyspaces of users, which DESCRIBE SCHEMA writes, without the system's."""
        return await self._reader.keyspaces()

    async def keyspace(self, name: str) -> Keyspace | None:
        return KEYSPACES[name] if name in KEYSPACES else await self._reader.keyspace(name)

    async def families(self, keyspace: str) -> list[StoredFamily]:
        if keyspace in KEYSPACES:
            return [family for (space, _), family in sorted(FAMILIES.items()) if space == keyspace]
        return await self._reader.families(keyspace)


class SystemExecutor(SystemSchema):
    """Satisfies `Executor` for one request, over the executor of the user's keyspaces.

    `schema`: what the tables show; `visible`: the part of it that the client may see; `topology`: reads the nodes.
    """

    def __init__(
        self,
        executor: Executor,
        schema: SchemaReader,
        visible: SchemaReader,
        topology: Callable[[], Awaitable[Topology]],
    ) -> None:
        super().__init__(executor)
        self._executor = executor
        self._schema = schema
        self._visible = visible
        self._topology = topology
        self._made: dict[tuple[str, str], _Rows] = {}

    def now(self) -> int:
        return self._executor.now()

    def timestamp(self) -> int:
        return self._executor.timestamp()

    async def family(self, keyspace: str, name: str) -> StoredFamily | None:
        if keyspace in KEYSPACES:
            return FAMILIES.get((keyspace, name))
        return await self._executor.family(keyspace, name)

    async def create_keyspace(self, keyspace: Keyspace) -> None:
        _check(keyspace.name)
        await self._executor.create_keyspace(keyspace)

    async def alter_keyspace(self, keyspace: Keyspace) -> None:
        _check(keyspace.name)
        await self._executor.alter_keyspace(keyspace)

    async def drop_keyspace(self, name: str) -> None:
        _check(name)
        await self._executor.drop_keyspace(name)

    async def create_family(self, keyspace: str, family: ColumnFamily) -> StoredFamily:
        _check(keyspace)
        return await self._executor.create_family(keyspace, family)

    async def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        _check(keyspace)
        await self._executor.alter_family(keyspace, family)

    async def drop_family(self, keyspace: str, name: str) -> None:
        _check(keyspace)
        await self._executor.drop_family(keyspace, name)

    async def truncate(self, keyspace: str, name: str) -> None:
        _check(keyspace)
        await self._executor.truncate(keyspace, name)

    async def apply(self, writes: Sequence[RowWrite], level: Level) -> list[str]:
        for write in writes:
            _check(write.keyspace)
        return await self._executor.apply(writes, level)

    async def apply_if(
        self, writes: Sequence[RowWrite], observed: Sequence[ObservedPage], level: Level
    ) -> list[str] | None:
        for write in writes:
            _check(write.keyspace)
        return await self._executor.apply_if(writes, observed, level)

    async def read(self, request: PartitionRead, level: Level) -> RecordPage:
        if request.keyspace not in KEYSPACES:
            return await self._executor.read(request, level)
        table = TABLES[request.keyspace, request.family]
        row_key = encode_row_key(table.keyspace.partitioner, request.key)
        rows = await self._rows(table)
        at = bisect_left(rows, row_key, key=lambda row: row[0])
        records = rows[at][1] if at < len(rows) and rows[at][0] == row_key else []
        entries = [stored for stored in records if request.start <= stored[0] < request.end]
        if request.reverse:
            entries.reverse()
        return RecordPage(entries[: request.limit], len(entries) > request.limit)

    async def scan(self, request: RingScan, level: Level) -> RingPage:
        if request.keyspace not in KEYSPACES:
            return await self._executor.scan(request, level)
        rows: _Rows = []
        remaining = request.limit
        for row_key, records in await self._rows(TABLES[request.keyspace, request.family]):
            if row_key < request.start or (request.end and row_key >= request.end):
                continue
            if request.after is not None:
                records = [stored for stored in records if (row_key, stored[0]) > request.after]
            if not records:
                continue
            if not remaining:
                last_key, last_records = rows[-1]
                return RingPage(rows, (last_key, last_records[-1][0]))
            rows.append((row_key, records[:remaining]))
            if len(records) > remaining:
                return RingPage(rows, (row_key, records[remaining - 1][0]))
            remaining -= len(records)
        return RingPage(rows, None)

    async def _rows(self, table: Table) -> _Rows:
        """The records of a table, made once for a request."""
        name = table.keyspace.name, table.name
        records = self._made.get(name)
        if records is None:
            records = self._made[name] = records_of(table, rows_of(*name, await self._facts()))
        return records

    async def _facts(self) -> SystemFacts:
        visible: Schema = await schema_of(self._visible)
        full_schema = visible if self._visible is self._schema else await schema_of(self._schema)
        return SystemFacts(await self._topology(), visible, schema_version(full_schema))


def records_of(table: Table, rows: Iterable[Row]) -> _Rows:
    """The records that store these rows."""
    partitions: dict[bytes, list[Stored]] = {}
    for row in rows:
        key = joined([column.type.serialise(row[column.name]) for column in table.partition])
        clustering_key = encode_clustering_key(
            table, [column.type.serialise(row[column.name]) for column in table.clustering]
        )
        records = partitions.setdefault(key, [])
        entries = [marker_entry(clustering_key, value_cell(b"", _WRITTEN_AT))]
        for column in table.regular:
            value = row.get(column.name)
            if value is not None:
                cell = value_cell(column.type.serialise(value), _WRITTEN_AT)
                entries.append(column_path(column, clustering_key).entry(cell))
        records += [(entry.path, entry.record) for entry in entries]
    partitioner = table.keyspace.partitioner
    return sorted((encode_row_key(partitioner, key), sorted(records)) for key, records in partitions.items())


def _check(keyspace: str) -> None:
    """Refuse a change of a system keyspace."""
    if keyspace in KEYSPACES:
        message = f"{keyspace} keyspace is not user-modifiable."
        raise CqlError(UNAUTHORIZED, message, Code.Unauthorized, "UnauthorizedException")
