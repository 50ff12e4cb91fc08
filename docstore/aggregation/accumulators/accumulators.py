"""Accumulators: the states of `$group`, one per group and field.

A state adds values, and exports itself as a raw value (`partial`) that another process's state can `merge`. Merging the
partial states of parts of a stream equals adding the whole stream, except for the order that `$first`, `$last`,
`$push`, `$addToSet` and `$mergeObjects` see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Protocol

from docstore.aggregation.expressions.model import is_nullish
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import DECIMAL, EMPTY_DOCUMENT, OBJECT, Value, elements, get_field, values
from docstore.errors import MOST_MEMBERS, CommandError, too_many_members
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, to_float
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.summation import Summation
from docstore.query.value.values import NULL_VALUE, NUMBERS, double_of, double_value, int64_value, int_of


class Accumulator(Protocol):
    """The state of one field of one group."""

    def add(self, value: Value | None) -> int:
        """Add a value (None: missing); return the bytes of memory by which the state has grown."""
        ...

    def partial(self) -> Value: ...

    def merge(self, partial: Value) -> int:
        """Merge another state's `partial`; return the bytes grown."""
        ...

    def result(self) -> Value: ...


class SumState:
    """`$sum`, and `$count` as a sum of ones. Ignores values that are no numbers."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum = Summation()

    def add(self, value: Value | None) -> int:
        if value is not None and value[0] in NUMBERS:
            self._sum.add(value)
        return 0

    def partial(self) -> Value:
        return array_value(self._sum.partial())

    def merge(self, partial: Value) -> int:
        self._sum.merge_partial(values(partial[1]))
        return 0

    def resume(self, partial: Value) -> None:
        """Restore an empty state from another state's `partial` without decimals."""
        self._sum.resume(values(partial[1]))

    def result(self) -> Value:
        return self._sum.result()


class AverageState:
    """`$avg`: null without numbers, a decimal if there was one, else a double."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum = Summation()
        self._count = 0

    def add(self, value: Value | None) -> int:
        if value is not None and value[0] in NUMBERS:
            self._sum.add(value)
            self._count += 1
        return 0

    def partial(self) -> Value:
        return array_value([int64_value(self._count), *self._sum.partial()])

    def merge(self, partial: Value) -> int:
        count, *parts = values(partial[1])
        self._count += int_of(count)
        self._sum.merge_partial(parts)
        return 0

    def resume(self, partial: Value) -> None:
        """Restore an empty state from another state's `partial` without decimals."""
        count, *parts = values(partial[1])
        self._count = int_of(count)
        self._sum.resume(parts)

    def result(self) -> Value:
        if not self._count:
            return NULL_VALUE
        if self._sum.kind == DECIMAL:
            return from_decimal(DECIMAL_CONTEXT.divide(self._sum.as_decimal(), Decimal(self._count)))
        return double_value(self._sum.as_float() / self._count)


class ExtremeState:
    """`$min` (`winning_sign` -1) and `$max` (1) in the order of all types; ignores null and missing values.

    Of equal values it keeps the first, or with `last` the last.
    """

    __slots__ = ("_best", "_compare", "_winning")

    def __init__(self, winning_sign: int, ordering: Ordering = BINARY, *, last: bool = False) -> None:
        self._winning = (winning_sign, 0) if last else (winning_sign,)
        self._compare = ordering.compare
        self._best: Value | None = None

    def add(self, value: Value | None) -> int:
        if value is None or is_nullish(value):
            return 0
        if self._best is None or self._compare(value, self._best) in self._winning:
            grown = len(value[1]) - (len(self._best[1]) if self._best is not None else 0)
            self._best = value
            return grown
        return 0

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> int:
        return self.add(partial)

    def result(self) -> Value:
        return NULL_VALUE if self._best is None else self._best


class EndState:
    """`$first` and `$last`; a missing value counts, and becomes null."""

    __slots__ = ("_last", "_seen", "_value")

    def __init__(self, last: bool) -> None:
        self._last = last
        self._seen = False
        self._value: Value = NULL_VALUE

    def add(self, value: Value | None) -> int:
        if self._seen and not self._last:
            return 0
        grown = (0 if value is None else len(value[1])) - len(self._value[1])
        self._seen = True
        self._value = NULL_VALUE if value is None else value
        return grown

    def partial(self) -> Value:
        return OBJECT, document_from([("v", *self._value)]) if self._seen else EMPTY_DOCUMENT

    def merge(self, partial: Value) -> int:
        value = get_field(partial[1], "v")
        return 0 if value is None else self.add(value)

    def result(self) -> Value:
        return self._value


_PER_MEMBER = 100
"""Bytes of memory that a collected value takes besides its own."""


class PushState:
    """`$push`: every value that is not missing. Errors: ExceededMemoryLimit for more than `MOST_MEMBERS`."""

    __slots__ = ("_held", "_members")

    def __init__(self) -> None:
        self._members: list[Value] = []
        self._held = 0

    def add(self, value: Value | None) -> int:
        if value is None:
            return 0
        grown = len(value[1]) + _PER_MEMBER
        self._held += grown
        if self._held > MOST_MEMBERS:
            raise too_many_members("$push")
        self._members.append(value)
        return grown

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> int:
        return sum(self.add(member) for member in values(partial[1]))

    def result(self) -> Value:
        return array_value(self._members)


class SetState:
    """`$addToSet`: every distinct value, the first of equal ones, in order of arrival.

    Errors: ExceededMemoryLimit for more than `MOST_MEMBERS`.
    """

    __slots__ = ("_held", "_key_of", "_members")

    def __init__(self, ordering: Ordering = BINARY) -> None:
        self._key_of = ordering.key
        self._members: dict[bytes, Value] = {}
        self._held = 0

    def add(self, value: Value | None) -> int:
        if value is None:
            return 0
        key = self._key_of(value)
        if key in self._members:
            return 0
        grown = len(key) + len(value[1]) + _PER_MEMBER
        self._held += grown
        if self._held > MOST_MEMBERS:
            raise too_many_members("$addToSet")
        self._members[key] = value
        return grown

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> int:
        return sum(self.add(member) for member in values(partial[1]))

    def result(self) -> Value:
        return array_value(self._members.values())


class MergeObjectsState:
    """`$mergeObjects`: later fields replace earlier ones of their name, in the earlier one's place."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[str, Value] = {}

    def add(self, value: Value | None) -> int:
        if value is None or is_nullish(value):
            return 0
        if value[0] != OBJECT:
            raise CommandError(5911200, "$mergeObjects only supports objects")
        for name, code, data in elements(value[1]):
            self._fields[name] = (code, data)
        return len(value[1])

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> int:
        return self.add(partial)

    def result(self) -> Value:
        return OBJECT, document_from((name, *value) for name, value in self._fields.items())


class DeviationState:
    """`$stdDevPop` and `$stdDevSamp` by Welford's method; null with too few numbers."""

    __slots__ = ("_count", "_mean", "_sample", "_squares")

    def __init__(self, sample: bool) -> None:
        self._sample = sample
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: Value | None) -> int:
        if value is not None and value[0] in NUMBERS:
            number = to_float(value)
            self._count += 1
            delta = number - self._mean
            self._mean += delta / self._count
            self._squares += delta * (number - self._mean)
        return 0

    def partial(self) -> Value:
        return array_value([int64_value(self._count), double_value(self._mean), double_value(self._squares)])

    def merge(self, partial: Value) -> int:
        count_value, mean_value, squares_value = values(partial[1])
        count = int_of(count_value)
        if count:
            total = self._count + count
            delta = double_of(mean_value) - self._mean
            self._squares += double_of(squares_value) + delta * delta * self._count * count / total
            self._mean += delta * count / total
            self._count = total
        return 0

    def result(self) -> Value:
        divisor = self._count - 1 if self._sample else self._count
        if divisor <= 0:
            return NULL_VALUE
        # The sign and payload of a resulting NaN depend on the machine.
        return double_value(math.nan if math.isnan(self._squares) else math.sqrt(self._squares / divisor))


ACCUMULATORS: Mapping[str, Callable[[], Accumulator]] = {
    "$addToSet": SetState,
    "$avg": AverageState,
    "$first": lambda: EndState(last=False),
    "$last": lambda: EndState(last=True),
    "$max": lambda: ExtremeState(1),
    "$mergeObjects": MergeObjectsState,
    "$min": lambda: ExtremeState(-1),
    "$push": PushState,
    "$stdDevPop": lambda: DeviationState(sample=False),
    "$stdDevSamp": lambda: DeviationState(sample=True),
    "$sum": SumState,
}
"""The initial state of each accumulator. `$count` is `$sum` of one."""

_EXTREMES = {"$max": 1, "$min": -1}


def state_of(name: str, ordering: Ordering, *, last: bool = False) -> Callable[[], Accumulator]:
    """Return the state factory of an accumulator under the request's ordering; `last` applies to `$min` and `$max`."""
    if name in _EXTREMES and (last or ordering is not BINARY):
        return partial(ExtremeState, _EXTREMES[name], ordering, last=last)
    if name == "$addToSet" and ordering is not BINARY:
        return partial(SetState, ordering)
    return ACCUMULATORS[name]
