"""Collectors of the rows that a SELECT reads: pages, a merge of several partitions in one order, aggregates.

A collector replies to each row with what to read next: more of the partition, the next partition, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from docstore.widecolumn.cql.plan.bindings import Bindings, Value
from docstore.widecolumn.cql.plan.select import SelectPlan
from docstore.widecolumn.cql.run.paging import PagePosition
from docstore.widecolumn.cql.run.rows import Row

_ROW_BYTES, _VALUE_BYTES = 16, 16
"""An estimate of the bytes of a row and of a value besides the values' own."""


def _row_bytes(values: tuple[Value, ...]) -> int:
    return _ROW_BYTES + sum(_VALUE_BYTES + len(value) for value in values if value is not None)


class NextStep(Enum):
    ROW = "row"
    PARTITION = "partition"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class ResultPage:
    """`position`: the row after which the next page begins; None after the last page."""

    rows: list[tuple[Value, ...]]
    position: PagePosition | None = None


class Collector(Protocol):
    wanted: int | None
    """The number of rows needed; None: all."""

    def take(self, row: Row) -> NextStep: ...

    def page(self) -> ResultPage:
        """Return the page once there are no more rows."""


def collector_of(
    plan: SelectPlan, bindings: Bindings, size: int, max_bytes: int, after: PagePosition | None
) -> Collector:
    """The collector of a plan; `size` 0: as many rows in a page as `max_bytes` allow."""
    if plan.grouped is not None:
        return GroupCollector(plan, bindings, size, max_bytes, after)
    if plan.selection.is_aggregate:
        return AggregateCollector(plan, bindings)
    if plan.merged:
        return MergingCollector(plan, bindings)
    return RowCollector(plan, bindings, size, max_bytes, after)


def _per_partition(plan: SelectPlan, bindings: Bindings) -> int | None:
    return 1 if plan.distinct else plan.count_partition_limit(bindings)


class RowCollector:
    """Rows as they come, up to a page and the limits. One row more than a page holds tells that there is another.

    A page is full at `size` rows, unless that is 0, and when its rows take `max_bytes`.
    """

    def __init__(
        self, plan: SelectPlan, bindings: Bindings, size: int, max_bytes: int, after: PagePosition | None
    ) -> None:
        self._plan = plan
        self._bindings = bindings
        self._size = size
        self._bytes_left = max_bytes
        self._per_partition = _per_partition(plan, bindings)
        self._left = plan.count_limit(bindings) if after is None else after.left
        self._left_here = self._per_partition if after is None else after.left_in_partition
        self._last = None if after is None else (after.key, after.clustering_key)
        self._rows: list[tuple[Value, ...]] = []
        self._more = False
        counts = [count for count in (self._left, size + 1 if size else None) if count is not None]
        self.wanted = min(counts, default=None)

    def take(self, row: Row) -> NextStep:
        if not all(test(row, self._bindings) for test in self._plan.tests):
            return NextStep.ROW
        left_here = self._left_here if self._last is None or self._last[0] == row.key else self._per_partition
        if left_here == 0:
            return NextStep.PARTITION
        if self._is_full():
            self._more = True
            return NextStep.STOP
        values = self._plan.selection.project(row, self._bindings)
        self._rows.append(values)
        self._bytes_left -= _row_bytes(values)
        self._last = row.key, row.clustering_key
        self._left_here = None if left_here is None else left_here - 1
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                return NextStep.STOP
        return NextStep.PARTITION if self._left_here == 0 else NextStep.ROW

    def _is_full(self) -> bool:
        return bool(self._rows) and (len(self._rows) == self._size or self._bytes_left <= 0)

    def page(self) -> ResultPage:
        if not self._more:
            return ResultPage(self._rows)
        assert self._last is not None, "a full page has a last row"
        return ResultPage(self._rows, PagePosition(*self._last, self._left, self._left_here))


class MergingCollector:
    """The rows of several partitions in the order of their clustering keys."""

    def __init__(self, plan: SelectPlan, bindings: Bindings) -> None:
        self.wanted = plan.count_limit(bindings)
        self._plan = plan
        self._bindings = bindings
        self._per_partition = min(
            (count for count in (self.wanted, _per_partition(plan, bindings)) if count is not None), default=None
        )
        self._rows: list[Row] = []
        self._key = b""
        self._here = 0

    def take(self, row: Row) -> NextStep:
        if not all(test(row, self._bindings) for test in self._plan.tests):
            return NextStep.ROW
        if row.key != self._key:
            self._key, self._here = row.key, 0
        self._rows.append(row)
        self._here += 1
        return NextStep.PARTITION if self._here == self._per_partition else NextStep.ROW

    def page(self) -> ResultPage:
        ordered = sorted(self._rows, key=lambda row: row.clustering_key, reverse=self._plan.reverse)
        return ResultPage([self._plan.selection.project(row, self._bindings) for row in ordered[: self.wanted]])


class _Fold:
    """Folds rows into one; outputs that are no aggregates come from the first row."""

    def __init__(self, plan: SelectPlan, bindings: Bindings) -> None:
        self._bindings = bindings
        self._outputs = plan.selection.outputs
        self._states: list[Any] = [None] * len(self._outputs)
        self._first: Row | None = None

    def add(self, row: Row) -> None:
        if self._first is None:
            self._first = row
        for position, output in enumerate(self._outputs):
            if output.aggregate is not None:
                value = output.evaluate(row, self._bindings)
                if value is not None:
                    self._states[position] = output.aggregate.add(self._states[position], value)

    def values(self) -> tuple[Value, ...]:
        values: list[Value] = []
        for output, state in zip(self._outputs, self._states, strict=True):
            if output.aggregate is not None:
                values.append(output.aggregate.finish(state))
            else:
                values.append(None if self._first is None else output.evaluate(self._first, self._bindings))
        return tuple(values)


class AggregateCollector:
    """Folds all rows into one."""

    def __init__(self, plan: SelectPlan, bindings: Bindings) -> None:
        self.wanted: int | None = None
        self._plan = plan
        self._bindings = bindings
        self._fold = _Fold(plan, bindings)

    def take(self, row: Row) -> NextStep:
        if all(test(row, self._bindings) for test in self._plan.tests):
            self._fold.add(row)
        return NextStep.ROW

    def page(self) -> ResultPage:
        return ResultPage([self._fold.values()])


class GroupCollector:
    """Folds the rows of each group into one. Rows of a group are adjacent; a page ends between groups."""

    def __init__(
        self, plan: SelectPlan, bindings: Bindings, size: int, max_bytes: int, after: PagePosition | None
    ) -> None:
        self.wanted: int | None = None
        self._plan = plan
        self._bindings = bindings
        self._size = size
        self._bytes_left = max_bytes
        self._left = plan.count_limit(bindings) if after is None else after.left
        self._group: tuple[bytes, tuple[bytes, ...]] | None = None
        self._fold = _Fold(plan, bindings)
        self._last = (b"", b"")
        self._rows: list[tuple[Value, ...]] = []
        self._more = False

    def take(self, row: Row) -> NextStep:
        if not all(test(row, self._bindings) for test in self._plan.tests):
            return NextStep.ROW
        group = row.key, row.clustering[: self._plan.grouped]
        if group != self._group:
            self._finish()
            if self._left == 0:
                return NextStep.STOP
            if self._rows and (len(self._rows) == self._size or self._bytes_left <= 0):
                self._more = True
                return NextStep.STOP
            self._group, self._fold = group, _Fold(self._plan, self._bindings)
        self._fold.add(row)
        self._last = row.key, row.clustering_key
        return NextStep.ROW

    def _finish(self) -> None:
        """Complete the current group."""
        if self._group is None:
            return
        self._group = None
        values = self._fold.values()
        self._rows.append(values)
        self._bytes_left -= _row_bytes(values)
        if self._left is not None:
            self._left -= 1

    def page(self) -> ResultPage:
        self._finish()
        return ResultPage(self._rows, PagePosition(*self._last, self._left, None) if self._more else None)
