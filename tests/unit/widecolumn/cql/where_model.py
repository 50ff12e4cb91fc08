"""A table as a list of rows: what WHERE clauses select and change, by testing every row with every condition."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Values = Mapping[str, Any]
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "!=": operator.ne, "IN": lambda value, members: value in members,
}  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """`clustering`: (name, descending). `types`: of all columns. `domains`: the values that statements use."""

    partition: tuple[str, ...]
    clustering: tuple[tuple[str, bool], ...]
    statics: tuple[str, ...]
    regulars: tuple[str, ...]
    types: Mapping[str, str]
    domains: Mapping[str, Sequence[Any]]

    @property
    def clustering_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.clustering)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.partition, *self.clustering_names, *self.statics, *self.regulars)


@dataclass(frozen=True)
class Condition:
    """`value`: one for each column; of IN a list of such. A single column has bare values."""

    columns: tuple[str, ...]
    comparison: str
    value: Any
    is_tuple: bool

    def holds(self, row: Values) -> bool:
        """Null meets no condition of WHERE."""
        values = tuple(row[name] for name in self.columns)
        if None in values:
            return False
        return COMPARISONS[self.comparison](values if self.is_tuple else values[0], self.value)


@dataclass
class Row:
    """`marked`: it was inserted, so it is there without values too."""

    values: dict[str, Any]
    marked: bool = False


@dataclass
class TableModel:
    schema: Schema
    rows: list[Row] = field(default_factory=list)
    statics: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)

    def selected(self, conditions: Sequence[Condition]) -> list[dict[str, Any]]:
        """The rows that meet all conditions, and a row without clustering values for each partition that has static
        values alone.
        """
        names = (*self.schema.clustering_names, *self.schema.regulars)
        partitions = {self._partition(row.values) for row in self.rows}
        candidates = [{**row.values, **self._statics(self._partition(row.values))} for row in self.rows]
        candidates += [
            {**dict(zip(self.schema.partition, key, strict=True)), **dict.fromkeys(names), **self._statics(key)}
            for key, values in self.statics.items()
            if key not in partitions and any(value is not None for value in values.values())
        ]
        return [row for row in candidates if all(condition.holds(row) for condition in conditions)]

    def insert(self, key: Values, values: Values) -> None:
        row = self._row(key)
        row.marked = True
        self._set(row, values)

    def update(self, conditions: Sequence[Condition], values: Values, *, of_statics: bool) -> None:
        """Write to every key that meets the conditions, whether a row is there or not."""
        for key in self.keys(conditions, partitions=of_statics):
            if of_statics:
                self.statics.setdefault(self._partition(key), {}).update(values)
            else:
                self._set(self._row(key), values)
        self._sweep()

    def delete(self, conditions: Sequence[Condition], columns: Sequence[str], *, of_statics: bool) -> None:
        """Delete columns, or whole rows where none are named; with the statics where no row is."""
        if columns:
            for key in self.keys(conditions, partitions=of_statics):
                nulls: dict[str, Any] = dict.fromkeys(columns)
                statics = {name: nulls.pop(name) for name in columns if name in self.schema.statics}
                self.statics.setdefault(self._partition(key), {}).update(statics)
                for row in self.rows:
                    if not of_statics and all(row.values[name] == value for name, value in key.items()):
                        row.values.update(nulls)
        else:
            if not any(set(condition.columns) & set(self.schema.clustering_names) for condition in conditions):
                for key in self.keys(conditions, partitions=True):
                    self.statics.pop(self._partition(key), None)
            self.rows = [row for row in self.rows if not all(condition.holds(row.values) for condition in conditions)]
        self._sweep()

    def keys(self, conditions: Sequence[Condition], *, partitions: bool = False) -> Iterator[dict[str, Any]]:
        """The keys over the domains that meet the conditions, of rows or of partitions."""
        names = self.schema.partition if partitions else (*self.schema.partition, *self.schema.clustering_names)
        for values in product(*(self.schema.domains[name] for name in names)):
            key = dict(zip(names, values, strict=True))
            if all(condition.holds(key) for condition in conditions):
                yield key

    def current(self, key: Values) -> dict[str, Any] | None:
        """The row of a key with its statics; None where it is not there."""
        for row in self.rows:
            if all(row.values[name] == value for name, value in key.items()):
                return {**row.values, **self._statics(self._partition(key))}
        return None

    def _partition(self, values: Values) -> tuple[Any, ...]:
        return tuple(values[name] for name in self.schema.partition)

    def _statics(self, key: tuple[Any, ...]) -> dict[str, Any]:
        return {**dict.fromkeys(self.schema.statics), **self.statics.get(key, {})}

    def _row(self, key: Values) -> Row:
        for row in self.rows:
            if all(row.values[name] == value for name, value in key.items()):
                return row
        self.rows.append(Row({**key, **dict.fromkeys(self.schema.regulars)}))
        return self.rows[-1]

    def _set(self, row: Row, values: Values) -> None:
        for name, value in values.items():
            if name in self.schema.statics:
                self.statics.setdefault(self._partition(row.values), {})[name] = value
            else:
                row.values[name] = value

    def _sweep(self) -> None:
        """Drop rows without a marker of which no value is left."""
        self.rows = [
            row for row in self.rows if row.marked or any(row.values[name] is not None for name in self.schema.regulars)
        ]
