"""Access path of a statement: the partitions by their keys or tokens, then ranges of rows.

Every condition is served by exactly one of three: the partition keys or the token, the clustering ranges, or nothing.
`remaining` holds the last: a statement tests them row by row or refuses them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import product

from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.clustering_ranges import ClusteringRanges, check_combinations, clustering_ranges
from docstore.widecolumn.cql.plan.partition_keys import joined
from docstore.widecolumn.cql.plan.restrictions import Condition, Restriction, Restrictions
from docstore.widecolumn.cql.schema.tables import Column, Table

PartitionKeys = Callable[[Bindings], list[bytes]]


@dataclass(frozen=True, slots=True)
class AccessPath:
    """`keys`: the partition keys, each once, in the order of their columns' types; None: the ring is read, or the part
    of it that `token` allows, and `ranges` are all rows.
    """

    keys: PartitionKeys | None
    token: Restriction | None
    ranges: ClusteringRanges
    remaining: tuple[Condition, ...]


def access_path(table: Table, restrictions: Restrictions) -> AccessPath:
    """The path that serves as many of the conditions as can be."""
    consumed: list[Condition] = []
    keys = token = None
    if restrictions.token is not None:
        consumed.append(restrictions.token)
        token = restrictions.token.restriction
    elif _names_partitions(table, restrictions):
        consumed += restrictions.on_any(table.partition)
        keys = _partition_keys(table, restrictions)
    ranges = clustering_ranges(table, Restrictions() if keys is None else restrictions)
    consumed += ranges.consumed
    remaining = tuple(condition for condition in restrictions.conditions if condition not in consumed)
    return AccessPath(keys, token, ranges, remaining)


def _names_partitions(table: Table, restrictions: Restrictions) -> bool:
    restricted = (restrictions.on(column) for column in table.partition)
    return all(restriction is not None and restriction.is_point for restriction in restricted)


def _partition_keys(table: Table, restrictions: Restrictions) -> PartitionKeys:
    named = [(column, restriction) for column in table.partition if (restriction := restrictions.on(column))]

    def keys(bindings: Bindings) -> list[bytes]:
        parts = [_values(*part, bindings) for part in named]
        check_combinations(*map(len, parts))
        return [joined(values) for values in product(*parts)]

    return keys


def _values(column: Column, restriction: Restriction, bindings: Bindings) -> list[bytes]:
    if restriction.equal is not None:
        return [restriction.equal(bindings)]
    assert restriction.among is not None, "the restriction names its values"
    values = set(restriction.among(bindings))
    if column.type.comparator is None:
        return sorted(values)
    comparator = column.type.comparator
    return sorted(values, key=comparator.encode if comparator.ordered else cmp_to_key(comparator.compare))
