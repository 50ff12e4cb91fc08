"""Accumulator states over a sliding window: values are added at one end and removed at the other.

Both take constant or logarithmic time in the size of the window.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import Protocol

from docstore.aggregation.expressions.model import is_nullish
from docstore.aggregation.expressions.quantiles import QuantileParameters, number_of
from docstore.bson.build import array_value
from docstore.bson.walk import ARRAY, DECIMAL, DOUBLE, INT32, INT64, Value, get_field, values
from docstore.query.value import arithmetic
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, to_float
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.summation import Summation
from docstore.query.value.values import NULL_VALUE, NUMBERS, decimal_of, double_of, double_value, int32_value


class Sliding(Protocol):
    """The state over the values in the window. They leave in the order in which they came."""

    def add(self, value: Value | None) -> None: ...

    def remove(self, value: Value | None) -> None: ...

    def result(self) -> Value | None: ...


class SlidingSum:
    """The sum of the numbers. Infinities and NaN are counted, not added, so that they can be removed."""

    __slots__ = ("_special", "_sum", "counts")

    def __init__(self) -> None:
        self.counts = {INT32: 0, INT64: 0, DOUBLE: 0, DECIMAL: 0}
        self._sum = Summation()
        self._special = {math.inf: 0, -math.inf: 0, math.nan: 0}

    @classmethod
    def resumed(cls, ints: int, longs: int, doubles: int, integral: int, high: float, low: float) -> SlidingSum:
        """Return the state of a sum with these counts of each numeric type and the parts of a `Summation`."""
        state = cls()
        state.counts |= {INT32: ints, INT64: longs, DOUBLE: doubles}
        state._sum = Summation.of_parts(integral, high, low)
        return state

    def add(self, value: Value | None) -> None:
        if value is None or value[0] not in NUMBERS:
            return
        self.counts[value[0]] += 1
        unusual = _unusual(value)
        if unusual is None:
            self._sum.add(value)
        else:
            self._special[unusual] += 1

    def remove(self, value: Value | None) -> None:
        if value is None or value[0] not in NUMBERS:
            return
        self.counts[value[0]] -= 1
        unusual = _unusual(value)
        if not self.count:
            self._sum = Summation()
        elif unusual is None:
            self._sum.remove(value)
        if unusual is not None:
            self._special[unusual] -= 1

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def _special_sum(self) -> float | None:
        """Return the sum if it is infinite or NaN; else None."""
        if self._special[math.nan] or (self._special[math.inf] and self._special[-math.inf]):
            return math.nan
        for number in (math.inf, -math.inf):
            if self._special[number]:
                return number
        return None

    def as_float(self) -> float:
        special = self._special_sum()
        return self._sum.as_float() if special is None else special

    def as_decimal(self) -> Decimal:
        special = self._special_sum()
        return self._sum.as_decimal() if special is None else Decimal(special)

    def result(self) -> Value:
        if self.counts[DECIMAL]:
            return from_decimal(self.as_decimal())
        if self.counts[DOUBLE]:
            return double_value(self.as_float())
        return self._sum.result_as(INT32)


def _unusual(number: Value) -> float | None:
    """Return the number as a double if it is infinite or NaN."""
    if number[0] == DOUBLE:
        double = double_of(number)
        return None if math.isfinite(double) else math.nan if math.isnan(double) else double
    if number[0] == DECIMAL:
        exact = decimal_of(number).to_decimal()
        return None if exact.is_finite() else math.nan if exact.is_nan() else float(exact)
    return None


class SlidingAverage(SlidingSum):
    """The mean; null without numbers."""

    __slots__ = ()

    def result(self) -> Value:
        count = self.count
        if not count:
            return NULL_VALUE
        if self.counts[DECIMAL]:
            return from_decimal(DECIMAL_CONTEXT.divide(self.as_decimal(), Decimal(count)))
        return double_value(self.as_float() / count)


SLIDING_SUMS: Mapping[str, type[SlidingSum]] = {"$avg": SlidingAverage, "$sum": SlidingSum}
"""Accumulators that `docstore.kernel.group.windows` also has."""


class SlidingDeviation:
    """The standard deviation, by updates of the sum and of the sum of squared differences from the mean.

    For one value and for none the results follow the reference.
    """

    __slots__ = ("_count", "_sample", "_squares", "_sum", "_unusual")

    def __init__(self, sample: bool) -> None:
        self._sample = sample
        self._count = 0
        self._sum = Summation()
        self._squares = Summation()
        self._unusual = 0

    def add(self, value: Value | None) -> None:
        number = self._counted(value, 1)
        if number is None:
            return
        if self._count:
            self._squares.add(self._square(number, self._count + 1))
        self._sum.add(double_value(number))
        self._count += 1

    def remove(self, value: Value | None) -> None:
        number = self._counted(value, -1)
        if number is None:
            return
        if self._count > 1:
            self._squares.remove(self._square(number, self._count))
            self._sum.remove(double_value(number))
        else:
            self._squares = Summation()
            self._sum = Summation()
        self._count -= 1

    def _counted(self, value: Value | None, sign: int) -> float | None:
        """Return the number as a double; infinities and NaN are only counted."""
        if value is None or value[0] not in NUMBERS:
            return None
        number = to_float(value)
        if math.isfinite(number):
            return number
        self._unusual += sign
        return None

    def _square(self, number: float, size: int) -> Value:
        """Return the change of the sum of squares by a number. `size`: the window's size with the number in it."""
        count = self._count
        delta = count * number - self._sum.as_float()
        return double_value(delta * delta / (size * (size - 1)))

    def result(self) -> Value:
        if self._unusual:
            return NULL_VALUE
        count = self._count
        if self._sample and count == 0:
            return double_value(-0.0)
        if count <= int(self._sample):
            return NULL_VALUE
        if count == 1:
            return int32_value(0)
        squares = max(self._squares.as_float(), 0.0)
        return double_value(math.sqrt(squares / (count - 1 if self._sample else count)))


class SlidingCovariance:
    """The covariance of pairs of numbers, by updates of the means; other values are ignored."""

    __slots__ = ("_count", "_products", "_sample", "_x", "_y")

    def __init__(self, sample: bool) -> None:
        self._sample = sample
        self._count = 0
        self._x = SlidingAverage()
        self._y = SlidingAverage()
        self._products = SlidingSum()

    @staticmethod
    def _pair(value: Value | None) -> tuple[Value, Value] | None:
        members = values(value[1]) if value is not None and value[0] == ARRAY else []
        if len(members) != 2 or members[0][0] not in NUMBERS or members[1][0] not in NUMBERS:
            return None
        return members[0], members[1]

    def add(self, value: Value | None) -> None:
        pair = self._pair(value)
        if pair is None:
            return
        x, y = pair
        mean = self._x.result() if self._count else int32_value(0)
        self._count += 1
        self._x.add(x)
        self._y.add(y)
        self._products.add(times(minus(x, mean), minus(y, self._y.result())))

    def remove(self, value: Value | None) -> None:
        pair = self._pair(value)
        if pair is None:
            return
        x, y = pair
        mean = self._y.result()
        self._count -= 1
        self._x.remove(x)
        self._y.remove(y)
        if not self._count:
            self._products = SlidingSum()
            return
        self._products.remove(times(minus(x, self._x.result()), minus(y, mean)))

    def result(self) -> Value:
        divisor = self._count - 1 if self._sample else self._count
        if divisor <= 0:
            return NULL_VALUE
        if self._products.counts[DECIMAL]:
            return from_decimal(DECIMAL_CONTEXT.divide(self._products.as_decimal(), Decimal(divisor)))
        return double_value(self._products.as_float() / divisor)


def plus(a: Value, b: Value) -> Value:
    total = arithmetic.add(a, b)
    return double_value(to_float(a) + to_float(b)) if total is None else total


def minus(a: Value, b: Value) -> Value:
    difference = arithmetic.subtract(a, b)
    return double_value(to_float(a) - to_float(b)) if difference is None else difference


def times(a: Value, b: Value) -> Value:
    product = arithmetic.multiply(a, b)
    return double_value(to_float(a) * to_float(b)) if product is None else product


class SlidingRow:
    """The values in order; `choose` computes the result from them."""

    __slots__ = ("_choose", "_keep_missing", "_members")

    def __init__(self, choose: Callable[[deque[Value | None]], Value | None], keep_missing: bool) -> None:
        self._choose = choose
        self._keep_missing = keep_missing
        self._members: deque[Value | None] = deque()

    def add(self, value: Value | None) -> None:
        if value is not None or self._keep_missing:
            self._members.append(value)

    def remove(self, value: Value | None) -> None:
        if value is not None or self._keep_missing:
            self._members.popleft()

    def result(self) -> Value | None:
        return self._choose(self._members)


class SlidingSet:
    """The distinct values, with their multiplicity."""

    __slots__ = ("_key_of", "_members")

    def __init__(self, ordering: Ordering = BINARY) -> None:
        self._key_of = ordering.key
        self._members: dict[bytes, deque[Value]] = {}

    def add(self, value: Value | None) -> None:
        if value is not None:
            self._members.setdefault(self._key_of(value), deque()).append(value)

    def remove(self, value: Value | None) -> None:
        if value is not None:
            key = self._key_of(value)
            self._members[key].popleft()
            if not self._members[key]:
                del self._members[key]

    def result(self) -> Value:
        return array_value([members[0] for members in self._members.values()])


_Entry = tuple[bytes, int, Value]


class SlidingOrder:
    """The values in key order; equal keys in the order of arrival."""

    __slots__ = ("_choose", "_entries", "_first", "_key_of", "_next", "_ranked")

    def __init__(self, choose: Callable[[list[_Entry]], Value], ranked: bool, ordering: Ordering = BINARY) -> None:
        self._key_of = ordering.key
        self._choose = choose
        self._ranked = ranked
        self._entries: list[_Entry] = []
        self._first = 0
        self._next = 0

    def _keyed(self, value: Value | None) -> tuple[bytes, Value] | None:
        if value is None:
            return None
        if self._ranked:
            key, member = get_field(value[1], "k"), get_field(value[1], "v")
            assert key is not None
            assert member is not None
            return key[1][5:], member
        return None if is_nullish(value) else (self._key_of(value), value)

    def add(self, value: Value | None) -> None:
        keyed = self._keyed(value)
        if keyed is not None:
            insort_right(self._entries, (keyed[0], self._next, keyed[1]))
            self._next += 1

    def remove(self, value: Value | None) -> None:
        keyed = self._keyed(value)
        if keyed is not None:
            del self._entries[bisect_left(self._entries, (keyed[0], self._first))]
            self._first += 1

    def result(self) -> Value:
        return self._choose(self._entries)


class SlidingQuantiles:
    """The numbers in order."""

    __slots__ = ("_numbers", "_parameters")

    def __init__(self, parameters: QuantileParameters) -> None:
        self._parameters = parameters
        self._numbers: list[float] = []

    def add(self, value: Value | None) -> None:
        number = number_of(value)
        if number is not None:
            insort_right(self._numbers, number)

    def remove(self, value: Value | None) -> None:
        number = number_of(value)
        if number is not None:
            del self._numbers[bisect_left(self._numbers, number)]

    def result(self) -> Value:
        return self._parameters.of_sorted(self._numbers)


def _end(index: int) -> Callable[[deque[Value | None]], Value | None]:
    """Return the value at an end, which may be missing; null for an empty window."""
    return lambda members: members[index] if members else NULL_VALUE


def _row(members: Iterable[Value | None]) -> Value:
    return array_value([NULL_VALUE if member is None else member for member in members])


def _extreme(index: int) -> Callable[[list[_Entry]], Value]:
    return lambda entries: entries[index][2] if entries else NULL_VALUE


_STATES: Mapping[str, Callable[[], Sliding]] = {
    "$avg": SlidingAverage,
    "$covariancePop": lambda: SlidingCovariance(sample=False),
    "$covarianceSamp": lambda: SlidingCovariance(sample=True),
    "$first": lambda: SlidingRow(_end(0), keep_missing=True),
    "$last": lambda: SlidingRow(_end(-1), keep_missing=True),
    "$push": lambda: SlidingRow(_row, keep_missing=False),
    "$stdDevPop": lambda: SlidingDeviation(sample=False),
    "$stdDevSamp": lambda: SlidingDeviation(sample=True),
    "$sum": SlidingSum,
}


_COMPARING: Mapping[str, Callable[[Ordering], Sliding]] = {
    "$addToSet": SlidingSet,
    "$max": lambda ordering: SlidingOrder(_extreme(-1), False, ordering),
    "$min": lambda ordering: SlidingOrder(_extreme(0), False, ordering),
}


def sliding_of(name: str, ordering: Ordering) -> Callable[[], Sliding] | None:
    """Return the state factory of an accumulator under the request's ordering; None for an unknown one."""
    under = _COMPARING.get(name)
    return _STATES.get(name) if under is None else partial(under, ordering)


def sliding_choice(name: str, count: int, ordering: Ordering) -> Sliding:
    """Return the state of an accumulator that keeps `count` values."""
    if name == "$firstN":
        return SlidingRow(lambda members: _row(list(members)[:count]), keep_missing=True)
    if name == "$lastN":
        return SlidingRow(lambda members: _row(list(members)[-count:]), keep_missing=True)
    if name == "$minN":
        return SlidingOrder(lambda entries: _members(entries[:count]), False, ordering)
    if name == "$maxN":
        return SlidingOrder(lambda entries: _members(entries[-count:][::-1]), False, ordering)
    if name == "$top":
        return SlidingOrder(_extreme(0), ranked=True)
    if name == "$bottom":
        return SlidingOrder(_extreme(-1), ranked=True)
    if name == "$topN":
        return SlidingOrder(lambda entries: _members(entries[:count]), ranked=True)
    assert name == "$bottomN"
    return SlidingOrder(lambda entries: _members(entries[-count:]), ranked=True)


def _members(entries: list[_Entry]) -> Value:
    return array_value([entry[2] for entry in entries])
