"""INSERT, UPDATE and DELETE, resolved: from values to the merges of rows.

Nothing is read; `docstore.widecolumn.cql.plan.conditions` has the conditions of IF. An INSERT writes a row marker
beside its cells, an UPDATE does not. Null writes a tombstone, an unset value nothing. All cells of a statement have
one timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from docstore.widecolumn.cql.errors import invalid, unsupported
from docstore.widecolumn.cql.plan.access_path import PartitionKeys, access_path
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Variable
from docstore.widecolumn.cql.plan.clustering_ranges import EVERYTHING, ClusteringRanges, check_combinations
from docstore.widecolumn.cql.plan.column_changes import (
    ColumnChange,
    Stamp,
    WriteContext,
    assigned_change,
    deletion_change,
    inserted_change,
)
from docstore.widecolumn.cql.plan.partition_keys import joined
from docstore.widecolumn.cql.plan.restrictions import Restrictions, check_slice_is_last, gather, is_in, present
from docstore.widecolumn.cql.plan.select import NEEDS_FILTERING, check_no_gap
from docstore.widecolumn.cql.plan.terms import TIMESTAMP_CLAUSE, TTL_CLAUSE, Evaluate, Preparation, Receiver
from docstore.widecolumn.cql.schema.layout import (
    encode_clustering_key,
    marker_entry,
    range_deletion,
    row_deletion,
)
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import Delete, Insert, Modification, Update, Using
from docstore.widecolumn.model.cells import MAX_TTL, Deletion, value_cell
from docstore.widecolumn.model.executor import RowWrite
from docstore.widecolumn.model.mutations import Entry, folded, row_deletion_entry

_LOWEST_TIMESTAMP = -(1 << 63)


Write = Callable[[WriteContext], list[RowWrite]]


class RowTarget(NamedTuple):
    """The one row that a modification is of: its partition and its clustering key; None for the static columns."""

    key: bytes
    clustering_key: bytes | None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan of a modification. `has_timestamp`: it says USING TIMESTAMP. `target`: its row, if `restrictions` (its
    WHERE) name one. `of_statics`: it writes the static columns of a partition. `reads_row`: its writes need the row.
    """

    table: Table
    variables: tuple[Variable, ...]
    has_timestamp: bool
    write: Write
    target: Callable[[Bindings], RowTarget]
    restrictions: Restrictions
    of_statics: bool
    reads_row: bool = False

    def writes(self, writing: WriteContext) -> list[RowWrite]:
        """Return the merges that the statement makes. CqlError."""
        return self.write(writing)


class _ResolvedWrite(NamedTuple):
    write: Write
    target: Callable[[Bindings], RowTarget]
    restrictions: Restrictions
    of_statics: bool
    reads_row: bool = False


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
    if resolved.reads_row and any(map(is_in, resolved.restrictions.on_any((*table.partition, *table.clustering)))):
        raise unsupported("Setting and removing elements of lists in several rows is")
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

    def stamp(self, writing: WriteContext) -> Stamp:
        return Stamp(self.at(writing), self.to_live(writing))

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


def _row_write(table: Table, key: bytes, entries: Sequence[Entry]) -> list[RowWrite]:
    return [RowWrite(table.keyspace.name, table.name, key, folded(entries))] if entries else []


def _check_present(columns: Sequence[Column], names: Sequence[str], key_part: str) -> None:
    missing = [column.name for column in columns if column.name not in names]
    if missing:
        raise invalid(f"Some {key_part} are missing: {', '.join(missing)}")


def _are_static(columns: Sequence[Column]) -> bool:
    """True if there are columns and all are static."""
    return bool(columns) and all(column.kind is ColumnKind.STATIC for column in columns)


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
    changes = [inserted_change(column, terms[column.name]) for column in columns if not column.kind.is_key]
    _check_present(table.partition, names, "partition key parts")
    of_statics = _are_static([change.column for change in changes]) and not any(
        column.name in terms for column in table.clustering
    )
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
        stamp = times.stamp(writing)
        entries: list[Entry] = []
        if clustering_key is not None:
            marker = value_cell(b"", stamp.timestamp, ttl=stamp.ttl, now=writing.now)
            entries.append(marker_entry(clustering_key, marker))
        entries += _entries(changes, clustering_key or b"", stamp, writing)
        return _row_write(table, key, entries)

    return _ResolvedWrite(writes, target, Restrictions(), of_statics)


def _entries(
    changes: Sequence[ColumnChange], clustering_key: bytes, stamp: Stamp, writing: WriteContext
) -> Iterator[Entry]:
    for change in changes:
        yield from change.entries(clustering_key, stamp, writing)


# UPDATE


def _update(preparation: Preparation, table: Table, statement: Update) -> _ResolvedWrite:
    times = _times(preparation, table, statement.using)
    changes = [assigned_change(preparation, table, part) for part in statement.assignments]
    _check_compatible(changes)
    where = _where(preparation, table, statement)
    of_statics = _is_of_statics(table, [change.column for change in changes], statement, where.restrictions)
    if not of_statics:
        restricted = [column.name for column in where.restrictions.restricted(table.clustering)]
        _check_present(table.clustering, restricted, "clustering keys")
        if not where.rows.is_complete:
            raise invalid("Slice restrictions are not supported on the clustering columns in UPDATE statements")

    def writes(writing: WriteContext) -> list[RowWrite]:
        stamp = times.stamp(writing)
        region = [EVERYTHING] if of_statics else where.rows.region(writing.bindings)
        row_writes: list[RowWrite] = []
        keys = where.keys(writing.bindings)
        check_combinations(len(keys), len(region))
        for key in keys:
            entries = [
                entry for clustering_key, _ in region for entry in _entries(changes, clustering_key, stamp, writing)
            ]
            row_writes += _row_write(table, key, entries)
        return row_writes

    return _ResolvedWrite(
        writes, _target_of(where, of_statics), where.restrictions, of_statics, any(c.reads_row for c in changes)
    )


def _check_compatible(changes: Sequence[ColumnChange]) -> None:
    """CqlError for two changes of one column of which one sets the whole value."""
    names = [change.column.name for change in changes]
    for change in changes:
        if names.count(change.column.name) > 1 and change.key is None and not change.operation:
            raise invalid(f"Multiple incompatible setting of column {change.column.name}")


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
    changes = [deletion_change(preparation, table, target) for target in statement.targets]
    if statement.using.ttl is not None:
        raise invalid("TTL is not supported in DELETE statements")
    times = _times(preparation, table, statement.using)
    where = _where(preparation, table, statement)
    of_statics = _is_of_statics(table, [change.column for change in changes], statement, where.restrictions)
    if changes and not of_statics and not where.rows.is_complete:
        raise invalid("Range deletions are not supported for specific columns")

    def writes(writing: WriteContext) -> list[RowWrite]:
        timestamp = times.at(writing)
        if changes:
            region = [EVERYTHING] if of_statics else where.rows.region(writing.bindings)
            entries = [
                entry
                for clustering_key, _ in region
                for entry in _entries(changes, clustering_key, Stamp(timestamp), writing)
            ]
        else:
            entries = _deletions(where.rows, writing.bindings, Deletion(timestamp, writing.now))
        keys = where.keys(writing.bindings)
        check_combinations(len(keys), len(entries))
        return [write for key in keys for write in _row_write(table, key, entries)]

    return _ResolvedWrite(
        writes, _target_of(where, of_statics), where.restrictions, of_statics, any(c.reads_row for c in changes)
    )


def _deletions(rows: ClusteringRanges, bindings: Bindings, deletion: Deletion) -> list[Entry]:
    """Return the deletion of the partition, or those of single rows or ranges of rows."""
    if not rows.consumed:
        return [row_deletion_entry(deletion)]
    if rows.is_complete:
        return [row_deletion(clustering_key, deletion) for clustering_key, _ in rows.region(bindings)]
    return [range_deletion(start, end, deletion) for start, end in rows.region(bindings)]
