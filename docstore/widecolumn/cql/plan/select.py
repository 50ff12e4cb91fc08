"""The plan of a SELECT: partitions, ranges of rows in them, conditions tested row by row, direction, limits.

A SELECT that would have to read rows only to discard them is refused, unless it says ALLOW FILTERING. Without that it
may have

- full partition keys, or a range of tokens, or nothing;
- then conditions on clustering columns from the first one on: values, and a range for the last one only.
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.widecolumn.cql.errors import invalid, unsupported
from docstore.widecolumn.cql.plan.access_path import AccessPath, PartitionKeys, access_path
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Variable
from docstore.widecolumn.cql.plan.clustering_ranges import ClusteringRanges
from docstore.widecolumn.cql.plan.filters import Test, compile_tests
from docstore.widecolumn.cql.plan.restrictions import Restriction, Restrictions, check_slice_is_last, gather
from docstore.widecolumn.cql.plan.selection import Selection, selection_of
from docstore.widecolumn.cql.plan.terms import LIMIT_CLAUSE, PARTITION_LIMIT_CLAUSE, Evaluate, Preparation, Receiver
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import Select, Term

NEEDS_FILTERING = (
    "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. "
    "If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"
)
_GROUP_ORDER = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"
_ORDER_AND_IN = (
    "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the "
    "ORDER BY or the IN and sort client side, or disable paging for this query"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectPlan:
    """The plan.

    `keys`: the partitions in the order of the result; None: all of the ring, or the part that `token` allows.
    `merged`: the rows of several partitions are merged into one order. `grouped`: the number of clustering columns
    whose values form a group; None without groups. `statics_alone`: a partition with static values and no rows gives
    one row.
    """

    table: Table
    variables: tuple[Variable, ...]
    selection: Selection
    keys: PartitionKeys | None
    token: Restriction | None
    clustering_ranges: ClusteringRanges
    tests: tuple[Test, ...]
    reverse: bool
    merged: bool
    grouped: int | None
    distinct: bool
    statics_alone: bool
    limit: Evaluate | None
    partition_limit: Evaluate | None
    warnings: tuple[str, ...] = ()

    def check_paging(self, page_size: int) -> None:
        """Raise CqlError for a result that cannot be paged."""
        if self.merged and page_size > 0:
            raise invalid(_ORDER_AND_IN)

    def count_limit(self, bindings: Bindings) -> int | None:
        return _limit(self.limit, bindings)

    def count_partition_limit(self, bindings: Bindings) -> int | None:
        return _limit(self.partition_limit, bindings)


def _limit(evaluate: Evaluate | None, bindings: Bindings) -> int | None:
    if evaluate is None:
        return None
    value = evaluate(bindings)
    if value is UNSET:
        return None
    if not isinstance(value, bytes) or not value:
        raise invalid("Invalid null value of limit")
    count = int.from_bytes(value, "big", signed=True)
    if count <= 0:
        raise invalid("LIMIT must be strictly positive")
    return count


def select_plan(table: Table, select: Select) -> SelectPlan:
    """Return the plan of a SELECT. CqlError for unsupported conditions."""
    if select.json:
        raise unsupported("SELECT JSON is")
    preparation = Preparation()
    selection = selection_of(preparation, table, select.selected)
    restrictions = gather(preparation, table, select.where)
    path = access_path(table, restrictions)
    keyed = path.keys is not None
    _check_remaining(table, restrictions, path, select.allow_filtering)
    if select.distinct:
        _check_distinct(table, selection, restrictions)
    reverse = _is_reversed(table, select, restrictions, keyed)
    several = any(restriction.among for restriction in _partition_restrictions(table, restrictions))
    grouped = _grouped(table, select, restrictions)
    if grouped is not None and (select.partition_limit is not None or select.distinct or (several and select.order)):
        raise unsupported("GROUP BY with PER PARTITION LIMIT, DISTINCT, or ORDER BY over several partitions is")
    limit = _limit_term(preparation, select.limit, LIMIT_CLAUSE)
    partition_limit = _partition_limit(preparation, select, selection)
    return SelectPlan(
        table=table,
        variables=preparation.ordered(),
        selection=selection,
        keys=path.keys,
        token=path.token,
        clustering_ranges=path.ranges,
        tests=compile_tests(path.remaining),
        reverse=reverse,
        merged=keyed and several and bool(select.order),
        grouped=grouped,
        distinct=select.distinct,
        statics_alone=_gives_statics_alone(table, selection, restrictions),
        limit=limit,
        partition_limit=partition_limit,
        warnings=() if keyed or not selection.is_aggregate else ("Aggregation query used without partition key",),
    )


def _limit_term(preparation: Preparation, term: Term | None, receiver: Receiver) -> Evaluate | None:
    return None if term is None else preparation.term(term, receiver)


def _partition_limit(preparation: Preparation, select: Select, selection: Selection) -> Evaluate | None:
    if select.partition_limit is not None:
        if select.distinct:
            raise invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
        if selection.is_aggregate:
            raise invalid("PER PARTITION LIMIT is not allowed with aggregate queries.")
    return _limit_term(preparation, select.partition_limit, PARTITION_LIMIT_CLAUSE)


def _partition_restrictions(table: Table, restrictions: Restrictions) -> list[Restriction]:
    column_restrictions = (restrictions.on(column) for column in table.partition)
    return [restriction for restriction in column_restrictions if restriction is not None]


def _gives_statics_alone(table: Table, selection: Selection, restrictions: Restrictions) -> bool:
    """Return whether a partition that has static values alone gives a row.

    It gives none where rows are selected: by a condition on clustering columns, or by asking for nothing that a
    partition without rows has.
    """
    if not table.static or restrictions.on_any(table.clustering):
        return False
    return not selection.reads or any(
        column.kind in (ColumnKind.PARTITION, ColumnKind.STATIC) for column in selection.reads
    )


def _check_remaining(table: Table, restrictions: Restrictions, path: AccessPath, allow_filtering: bool) -> None:
    """CqlError for conditions that cannot be tested row by row, and for all that remain without ALLOW FILTERING."""
    named = _partition_restrictions(table, restrictions)
    if named and restrictions.token is not None:
        raise unsupported("Conditions on columns of the partition key beside one on their token are")
    if named and path.keys is None and not allow_filtering:
        raise invalid(NEEDS_FILTERING)
    for column in (*table.static, *table.regular):
        restriction = restrictions.on(column)
        if restriction is not None and restriction.among is not None:
            raise invalid(f"IN predicates on non-primary-key columns ({column.name}) is not yet supported")
    if not allow_filtering and path.remaining:
        check_no_gap(table, restrictions.restricted(table.clustering))
        check_slice_is_last(table, restrictions)
        raise invalid(NEEDS_FILTERING)


def check_no_gap(table: Table, restricted: list[Column]) -> None:
    """CqlError when a clustering column is restricted and one before it is not."""
    for column, expected in zip(restricted, table.clustering, strict=False):
        if column is not expected:
            raise invalid(
                f'PRIMARY KEY column "{column.name}" cannot be restricted as preceding column "{expected.name}" '
                "is not restricted"
            )


def _check_distinct(table: Table, selection: Selection, restrictions: Restrictions) -> None:
    for column in selection.columns:
        if column.kind not in (ColumnKind.PARTITION, ColumnKind.STATIC):
            raise invalid(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns "
                f"(not {column.name})"
            )
    for column in table.partition:
        if column not in selection.columns:
            raise invalid(f"SELECT DISTINCT queries must request all the partition key columns (missing {column.name})")
    if restrictions.on_any((*table.clustering, *table.regular)):
        raise invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
        )


def _is_reversed(table: Table, select: Select, restrictions: Restrictions, keyed: bool) -> bool:
    """True if ORDER BY asks for the reverse of the stored order. CqlError for any other order."""
    if not select.order:
        return False
    if not keyed:
        raise invalid("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.")
    directions: set[bool] = set()
    position = 0
    for name, descending in select.order:
        column = table.column(name)
        if column.kind is not ColumnKind.CLUSTERING:
            raise invalid(
                f"Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            )
        while position != column.position:
            restriction = restrictions.on(table.clustering[position]) if position < len(table.clustering) else None
            if restriction is None or restriction.equal is None:
                raise invalid(
                    "Order by currently only supports the ordering of columns following their declared order in the "
                    "PRIMARY KEY"
                )
            position += 1
        position += 1
        directions.add(descending != column.descending)
    if len(directions) > 1:
        raise invalid("Unsupported order by relation")
    return directions.pop()


def _grouped(table: Table, select: Select, restrictions: Restrictions) -> int | None:
    """Return how many clustering columns distinguish groups; None without GROUP BY. CqlError.

    The columns follow the order of the key; one restricted by an equality may be left out.
    """
    if not select.group:
        return None
    key = [*table.partition, *table.clustering]
    position = 0
    for name in select.group:
        column = table.column(name)
        if not column.kind.is_key:
            raise invalid(f"Group by is currently only supported on the columns of the PRIMARY KEY, got {name}")
        while position < len(key) and key[position] is not column:
            restriction = restrictions.on(key[position])
            if restriction is None or restriction.equal is None:
                raise invalid(_GROUP_ORDER)
            position += 1
        if position == len(key):
            raise invalid(_GROUP_ORDER)
        position += 1
    if position < len(table.partition):
        raise invalid("Group by is not supported on only a part of the partition key")
    return position - len(table.partition)
