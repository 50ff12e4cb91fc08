"""INSERT, UPDATE and DELETE, resolved: from values to the merges of rows.

Nothing is read; `docstore.widecolumn.cql.plan.conditions` has the conditions of IF. An INSERT writes a row marker
beside its cells, an UPDATE does not. Null writes a tombstone, an unset value nothing. All cells of a statement have
one timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.access_path import PartitionKeys, access_path
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Bound, Variable
from docstore.widecolumn.cql.plan.clustering_ranges import EVERYTHING, ClusteringRanges
from docstore.widecolumn.cql.plan.partition_keys import joined
from docstore.widecolumn.cql.plan.restrictions import Restrictions, check_slice_is_last, gather, present
from docstore.widecolumn.cql.plan.select import NEEDS_FILTERING, check_no_gap
from docstore.widecolumn.cql.plan.terms import TIMESTAMP_CLAUSE, TTL_CLAUSE, Evaluate, Preparation, Receiver
from docstore.widecolumn.cql.schema.layout import (
    encode_clustering_key,
    marker_entry,
    range_deletion,
    row_cell_entry,
    row_deletion,
    static_entry,
)
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import Assignment, Delete, Insert, Modification, Update, Using
from docstore.widecolumn.model.cells import MAX_TTL, Cell, Deletion, tombstone, value_cell
from docstore.widecolumn.model.executor import RowWrite
from docstore.widecolumn.model.mutations import Entry, folded, row_deletion_entry

_LOWEST_TIMESTAMP = -(1 << 63)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Common inputs of the writes of one request. `timestamp`: in microseconds, if the statement gives none;
    `max_value`: in bytes.
    """

    bindings: Bindings
    timestamp: int
    max_value: int

    @property
    def now(self) -> int:
        return self.bindings.time.seconds


Write = Callable[[WriteContext], list[RowWrite]]


class RowTarget(NamedTuple):
    """The one row that a modification is of: its partition and its clustering key; None for the static columns."""

    key: bytes
    clustering_key: bytes | None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan of a modification. `has_timestamp`: it says USING TIMESTAMP. `target`: its row, if `restrictions` (its
    WHERE) name one. `of_statics`: it writes the static columns of a partition.
    """

    table: Table
    variables: tuple[Variable, ...]
    has_timestamp: bool
    write: Write
    target: Callable[[Bindings], RowTarget]
    restrictions: Restrictions
    of_statics: bool

    def writes(self, writing: WriteContext) -> list[RowWrite]:
        """Return the merges that the statement makes. CqlError."""
        return self.write(writing)


class _ResolvedWrite(NamedTuple):
    write: Write
    target: Callable[[Bindings], RowTarget]
    restrictions: Restrictions
    of_statics: bool


def write_plan(table: Table, statement: Modification) -> WritePlan:
    """The plan of a modification without IF. CqlError."""
    return prepared_write(Preparation(), table, statement)


def prepared_write(preparation: Preparation, table: Table, statement: Modification) -> WritePlan:
    """Return the writes of a modification, ignoring its IF. CqlError."""
    if isinstance(statement, Insert):
        resolved = _insert(preparation, table, statement)
    elif isinstance(statement, Update):
        resolved = _update(preparation, table, statement)
    else:
        resolved = _delete(preparation, table, statement)
    return WritePlan(table, preparation.ordered(), statement.using.timestamp is not None, *resolved)


# Parts common to all modifications


@dataclass(frozen=True, slots=True)
class _UsingTimes:
    """USING."""

    timestamp: Evaluate | None
    ttl: Evaluate | None
    default_ttl: int

    def at(self, writing: WriteContext) -> int:
        """Return the timestamp of the writes."""
        value = None if self.timestamp is None else self.timestamp(writing.bindings)
        if self.timestamp is None or value is UNSET:
            return writing.timestamp
        if not isinstance(value, bytes) or not value:
            raise invalid("Invalid null value of timestamp")
        timestamp = int.from_bytes(value, "big", signed=True)
        if timestamp == _LOWEST_TIMESTAMP:
            raise invalid(f"Out of bound timestamp, must be in [{_LOWEST_TIMESTAMP + 1}, {(1 << 63) - 1}]")
        return timestamp

    def to_live(self, writing: WriteContext) -> int:
        """Seconds; 0: for ever."""
        value = None if self.ttl is None else self.ttl(writing.bindings)
        if not isinstance(value, bytes) or not value:
            return self.default_ttl
        ttl = int.from_bytes(value, "big", signed=True)
        if ttl < 0:
            raise invalid(f"A TTL must be greater or equal to 0, but was {ttl}")
        if ttl > MAX_TTL:
            raise invalid(f"ttl is too large. requested ({ttl}) maximum ({MAX_TTL})")
        return ttl


def _times(preparation: Preparation, table: Table, using: Using) -> _UsingTimes:
    return _UsingTimes(
        None if using.timestamp is None else preparation.term(using.timestamp, TIMESTAMP_CLAUSE),
        None if using.ttl is None else preparation.term(using.ttl, TTL_CLAUSE),
        table.default_ttl,
    )


def _cell(column: Column, value: Bound, timestamp: int, ttl: int, writing: WriteContext) -> Cell | None:
    """Return the cell for a value; none if it is unset."""
    if value is UNSET:
        return None
    if not isinstance(value, bytes):
        return tombstone(timestamp, writing.now)
    if len(value) > writing.max_value:
        raise invalid(
            f"the value of column {column.name} has {len(value)} bytes, more than the limit of {writing.max_value}"
        )
    return value_cell(value, timestamp, ttl=ttl, now=writing.now)


def _row_write(table: Table, key: bytes, entries: Sequence[Entry]) -> list[RowWrite]:
    return [RowWrite(table.keyspace.name, table.name, key, folded(entries))] if entries else []


def _check_present(columns: Sequence[Column], names: Sequence[str], key_part: str) -> None:
    missing = [column.name for column in columns if column.name not in names]
    if missing:
        raise invalid(f"Some {key_part} are missing: {', '.join(missing)}")


def _value_columns(values: Sequence[tuple[Column, Evaluate]]) -> bool:
    """True if there are columns and all are static."""
    return bool(values) and all(column.kind is ColumnKind.STATIC for column, _ in values)


# INSERT


def _insert(preparation: Preparation, table: Table, statement: Insert) -> _ResolvedWrite:
    names = statement.columns
    if len(names) != len(statement.values):
        raise invalid("Unmatched column names/values")
    if len(set(names)) != len(names):
        raise invalid("The column names contains duplicates")
    columns = [table.column(name) for name in names]
    terms = {
        column.name: preparation.term(value, Receiver(column.name, column.type))
        for column, value in zip(columns, statement.values, strict=True)
    }
    values = [(column, terms[column.name]) for column in columns if not column.kind.is_key]
    _check_present(table.partition, names, "partition key parts")
    of_statics = _value_columns(values) and not any(column.name in terms for column in table.clustering)
    if not of_statics:
        _check_present(table.clustering, names, "clustering keys")
    times = _times(preparation, table, statement.using)

    def target(bindings: Bindings) -> RowTarget:
        key = joined([present(terms[column.name](bindings), column) for column in table.partition])
        if of_statics:
            return RowTarget(key, None)
        return RowTarget(
            key,
            encode_clustering_key(
                table, [present(terms[column.name](bindings), column) for column in table.clustering]
            ),
        )

    def writes(writing: WriteContext) -> list[RowWrite]:
        key, clustering_key = target(writing.bindings)
        timestamp, ttl = times.at(writing), times.to_live(writing)
        entries: list[Entry] = []
        if clustering_key is not None:
            entries.append(marker_entry(clustering_key, value_cell(b"", timestamp, ttl=ttl, now=writing.now)))
        entries += _cells(values, clustering_key or b"", timestamp, ttl, writing)
        return _row_write(table, key, entries)

    return _ResolvedWrite(writes, target, Restrictions(), of_statics)


def _cells(
    values: Sequence[tuple[Column, Evaluate]], clustering_key: bytes, timestamp: int, ttl: int, writing: WriteContext
) -> Iterator[Entry]:
    for column, evaluate in values:
        cell = _cell(column, evaluate(writing.bindings), timestamp, ttl, writing)
        if cell is None:
            continue
        yield (
            static_entry(column, cell)
            if column.kind is ColumnKind.STATIC
            else row_cell_entry(clustering_key, column, cell)
        )


# UPDATE


def _update(preparation: Preparation, table: Table, statement: Update) -> _ResolvedWrite:
    times = _times(preparation, table, statement.using)
    values = [_assignment(preparation, table, part) for part in statement.assignments]
    names = [column.name for column, _ in values]
    for name in names:
        if names.count(name) > 1:
            raise invalid(f"Multiple incompatible setting of column {name}")
    where = _where(preparation, table, statement)
    of_statics = _is_of_statics(table, [column for column, _ in values], statement, where.restrictions)
    if not of_statics:
        restricted = [column.name for column in where.restrictions.restricted(table.clustering)]
        _check_present(table.clustering, restricted, "clustering keys")
        if not where.rows.is_complete:
            raise invalid("Slice restrictions are not supported on the clustering columns in UPDATE statements")

    def writes(writing: WriteContext) -> list[RowWrite]:
        timestamp, ttl = times.at(writing), times.to_live(writing)
        row_writes: list[RowWrite] = []
        region = [EVERYTHING] if of_statics else where.rows.region(writing.bindings)
        for key in where.keys(writing.bindings):
            entries = [
                entry
                for clustering_key, _ in region
                for entry in _cells(values, clustering_key, timestamp, ttl, writing)
            ]
            row_writes += _row_write(table, key, entries)
        return row_writes

    return _ResolvedWrite(writes, _target_of(where, of_statics), where.restrictions, of_statics)


def _is_of_statics(
    table: Table, columns: Sequence[Column], statement: Update | Delete, restrictions: Restrictions
) -> bool:
    """Return whether the statement changes and tests static columns alone, so it is about no row.

    CqlError where its WHERE names rows nevertheless.
    """
    judged = [table.column(relation.column) for relation in statement.conditions or ()]
    if not columns or any(column.kind is not ColumnKind.STATIC for column in (*columns, *judged)):
        return False
    if restrictions.on_any(table.clustering):
        kind = "UPDATE" if isinstance(statement, Update) else "DELETE"
        raise invalid(
            f"Invalid restrictions on clustering columns since the {kind} statement modifies only static columns"
        )
    return True


def _target_of(where: _Where, of_statics: bool) -> Callable[[Bindings], RowTarget]:
    """The row, for a WHERE that names one."""

    def target(bindings: Bindings) -> RowTarget:
        (key,) = where.keys(bindings)
        if of_statics:
            return RowTarget(key, None)
        ((clustering_key, _),) = where.rows.region(bindings)
        return RowTarget(key, clustering_key)

    return target


def _assignment(preparation: Preparation, table: Table, assignment: Assignment) -> tuple[Column, Evaluate]:
    column = table.column(assignment.column)
    if column.kind.is_key:
        raise invalid(f"PRIMARY KEY part {column.name} found in SET part")
    if assignment.element is not None:
        raise invalid(f"Invalid element operation for non collection column {column.name}")
    if assignment.operation:
        raise invalid(f"Invalid operation ({assignment.operation}) for non counter column {column.name}")
    return column, preparation.term(assignment.value, Receiver(column.name, column.type))


class _Where(NamedTuple):
    """The conditions of a modification, all of them turned into `keys` and `rows`."""

    restrictions: Restrictions
    keys: PartitionKeys
    rows: ClusteringRanges


def _where(preparation: Preparation, table: Table, statement: Update | Delete) -> _Where:
    """The rows that a modification names. CqlError for every condition that keys and ranges of rows do not serve."""
    restrictions = gather(preparation, table, statement.where)
    non_key_names = [column.name for column in restrictions.restricted((*table.static, *table.regular))]
    if non_key_names:
        raise invalid(f"Non PRIMARY KEY columns found in where clause: {', '.join(non_key_names)} ")
    if restrictions.token is not None:
        kind = "UPDATE" if isinstance(statement, Update) else "DELETE"
        raise invalid(f"The token function cannot be used in WHERE clauses for {kind} statements")
    restricted = restrictions.restricted(table.partition)
    _check_present(table.partition, [column.name for column in restricted], "partition key parts")
    path = access_path(table, restrictions)
    if path.keys is None:
        raise invalid(
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function)"
        )
    if path.remaining:
        if isinstance(statement, Update):
            restricted = restrictions.restricted(table.clustering)
            _check_present(table.clustering, [column.name for column in restricted], "clustering keys")
        check_no_gap(table, restrictions.restricted(table.clustering))
        check_slice_is_last(table, restrictions)
        raise invalid(NEEDS_FILTERING)
    return _Where(restrictions, path.keys, path.ranges)


# DELETE


def _delete(preparation: Preparation, table: Table, statement: Delete) -> _ResolvedWrite:
    columns = [_target(table, target.column, target.element is not None) for target in statement.targets]
    if statement.using.ttl is not None:
        raise invalid("TTL is not supported in DELETE statements")
    times = _times(preparation, table, statement.using)
    where = _where(preparation, table, statement)
    of_statics = _is_of_statics(table, columns, statement, where.restrictions)
    if columns and not of_statics and not where.rows.is_complete:
        raise invalid("Range deletions are not supported for specific columns")

    def writes(writing: WriteContext) -> list[RowWrite]:
        timestamp = times.at(writing)
        if columns:
            region = [EVERYTHING] if of_statics else where.rows.region(writing.bindings)
            dead = tombstone(timestamp, writing.now)
            entries = [
                static_entry(column, dead)
                if column.kind is ColumnKind.STATIC
                else row_cell_entry(clustering_key, column, dead)
                for clustering_key, _ in region
                for column in columns
            ]
        else:
            entries = _deletions(where.rows, writing.bindings, Deletion(timestamp, writing.now))
        return [write for key in where.keys(writing.bindings) for write in _row_write(table, key, entries)]

    return _ResolvedWrite(writes, _target_of(where, of_statics), where.restrictions, of_statics)


def _deletions(rows: ClusteringRanges, bindings: Bindings, deletion: Deletion) -> list[Entry]:
    """Return the deletion of the partition, or those of single rows or ranges of rows."""
    if not rows.consumed:
        return [row_deletion_entry(deletion)]
    if rows.is_complete:
        return [row_deletion(clustering_key, deletion) for clustering_key, _ in rows.region(bindings)]
    return [range_deletion(start, end, deletion) for start, end in rows.region(bindings)]


def _target(table: Table, name: str, element: bool) -> Column:
    column = table.column(name)
    if column.kind.is_key:
        raise invalid(f"Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)")
    if element:
        raise invalid(f"Invalid deletion operation for non collection column {name}")
    return column
