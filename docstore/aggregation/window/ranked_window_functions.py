"""Window functions that are no accumulators: ranks, `$shift`, fills, moving averages, derivatives and integrals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from docstore.aggregation.expressions.calculations import Compute, source_of
from docstore.aggregation.expressions.model import is_nullish
from docstore.aggregation.expressions.parse import Parser
from docstore.aggregation.window.bounds import STEPS, Window, parse_window, unit_of
from docstore.aggregation.window.partition import NOT_YET, Fields, Partition, Placed
from docstore.aggregation.window.sliding import minus, plus, times
from docstore.bson.order import compare
from docstore.bson.walk import DATE, DECIMAL, OBJECT, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, to_decimal, to_float
from docstore.query.value.notation import display
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    NULL_VALUE,
    NUMBERS,
    double_value,
    int32_value,
    int64_value,
    int_of,
    integral_of,
    type_name,
)

Parse = Callable[[str, Value, Value | None, Fields | None, Parser], "Callable[[Partition], Placed]"]
"""Parses (name, argument, window, the stage's sort (None: none), parser)."""


def _failed(reason: str) -> CommandError:
    return CommandError(Code.FailedToParse, reason)


def _values(compute: Compute, partition: Partition) -> Placed:
    return lambda place: compute(partition.document(place))


def _parse_rank(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    if window is not None:
        raise CommandError(5371601, "Rank style window functions take no other arguments")
    if argument[0] != OBJECT or elements(argument[1]):
        raise CommandError(5371603, f"{name} must be specified with '{{}}' as the value")
    if fields is None or len(fields) != 1:
        raise CommandError(
            5371602, f"{name} must be specified with a top level sortBy expression with exactly one element"
        )

    def start(partition: Partition) -> Placed:
        rank = dense = 0

        def result(position: int) -> Value:
            nonlocal rank, dense
            if position == 0 or partition.key(position) != partition.key(position - 1):
                rank, dense = position + 1, dense + 1
            return int32_value({"$rank": rank, "$denseRank": dense}.get(name, position + 1))

        return result

    return start


def _parse_shift(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    if window is not None:
        raise _failed("$shift does not accept a 'window' field")
    if fields is None:
        raise _failed("'$shift' requires a sortBy")
    if argument[0] != OBJECT:
        raise _failed("Argument to $shift must be an object")
    arguments = {field: (code, data) for field, code, data in elements(argument[1])}
    if arguments.keys() - {"output", "by", "default"}:
        raise _failed("Unknown argument in $shift")
    for field in ("output", "by"):
        if field not in arguments:
            raise _failed(f"$shift requires '{field}'")
    by = integral_of(arguments["by"]) if arguments["by"][0] in NUMBERS else None
    if by is None or not INT_MIN <= by <= INT_MAX:
        raise _failed(f"'$shift:by' field must be an integer, but found {display(arguments['by'])}")
    default = parser.expression(arguments["default"]) if "default" in arguments else None
    if default is not None and not default.is_constant:
        raise _failed("'$shift:default' expression must yield a constant value.")
    otherwise = NULL_VALUE if default is None else default.constant
    output = source_of(parser.expression(arguments["output"]))

    def start(partition: Partition) -> Placed:
        value_at = _values(output, partition)
        length = len(partition)
        return lambda place: value_at(place + by) if 0 <= place + by < length else otherwise

    return start


def _parse_moving_average(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    if argument[0] != OBJECT or window is not None:
        raise _failed(f"{name} must have exactly one argument that is an object")
    if fields is None:
        raise _failed(f"{name} requires an explicit 'sortBy'")
    arguments = {field: (code, data) for field, code, data in elements(argument[1])}
    if arguments.keys() not in ({"input", "N"}, {"input", "alpha"}):
        raise _failed(f"{name} must have exactly an 'input' field, and either an 'N' field or an 'alpha' field")
    weight = _weight(arguments)
    remaining_weight = DECIMAL_CONTEXT.subtract(Decimal(1), weight)
    source = source_of(parser.expression(arguments["input"]))

    def start(partition: Partition) -> Placed:
        value_at = _values(source, partition)
        average: Decimal | None = None
        is_decimal = False

        def result(position: int) -> Value:
            nonlocal average, is_decimal
            value = value_at(position)
            if value is not None and value[0] in NUMBERS:
                is_decimal = is_decimal or value[0] == DECIMAL
                number = to_decimal(value)
                if average is None:
                    average = number
                else:
                    past_term = DECIMAL_CONTEXT.multiply(average, remaining_weight)
                    average = DECIMAL_CONTEXT.add(DECIMAL_CONTEXT.multiply(number, weight), past_term)
            if average is None:
                return NULL_VALUE
            return from_decimal(average) if is_decimal else double_value(float(average))

        return result

    return start


def _weight(arguments: Mapping[str, Value]) -> Decimal:
    if "N" in arguments:
        size = integral_of(arguments["N"]) if arguments["N"][0] in NUMBERS else None
        if size is None:
            raise _failed("'N' field must be an integer")
        if size <= 0:
            raise _failed(f"'N' must be greater than zero. Got {size}")
        return DECIMAL_CONTEXT.divide(Decimal(2), Decimal(size + 1))
    alpha = arguments["alpha"]
    if alpha[0] not in NUMBERS:
        raise _failed("'alpha' must be a number")
    if not 0 < to_decimal(alpha) < 1:
        raise _failed(f"'alpha' must be between 0 and 1 (exclusive), found alpha: {display(alpha)}")
    return to_decimal(alpha)


_LENGTHS = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "millisecond": 1,
}


def _input_and_unit(name: str, argument: Value, fields: Fields | None, parser: Parser) -> tuple[Compute, int | None]:
    """Return (input, milliseconds of the unit) of `$derivative` or `$integral`."""
    if fields is None:
        raise _failed(f"{name} requires a sortBy")
    if len(fields) != 1:
        raise _failed(f"{name} requires a non-compound sortBy")
    if argument[0] != OBJECT:
        raise _failed(f"{name} expects an object, but got a {type_name(argument)}")
    arguments: dict[str, Value] = {}
    for field, code, data in elements(argument[1]):
        if field not in ("input", "unit"):
            raise _failed(f"{name} got unexpected argument: {field}")
        arguments[field] = (code, data)
    if "input" not in arguments:
        raise _failed(f"{name} requires an 'input' expression")
    unit: int | None = None
    if "unit" in arguments:
        unit = _LENGTHS.get(unit_of(arguments["unit"]))
        if unit is None:
            raise CommandError(5490710, "unit must be 'week' or smaller")
    return source_of(parser.expression(arguments["input"])), unit


def _parse_derivative(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    if window is None:
        raise _failed(f"{name} requires explicit window bounds")
    source, unit = _input_and_unit(name, argument, fields, parser)
    parsed = parse_window(window, fields, parser)

    def start(partition: Partition) -> Placed:
        slices = parsed.slices(partition.sort_value, len(partition), partition.descending)
        value_at = _values(source, partition)

        def result(position: int) -> Value:
            bounds = slices(position)
            if bounds is None:
                return NOT_YET
            begin, end = bounds
            if end - begin < 1:
                return NULL_VALUE
            x0, x1 = (_derivative_x(partition.sort_value(at), unit) for at in (begin, end - 1))
            y0, y1 = (_derivative_y(value_at(at)) for at in (begin, end - 1))
            run, rise = minus(x1, x0), minus(y1, y0)
            if compare(run, int32_value(0)) == 0:
                return NULL_VALUE
            return _quotient(rise, run if unit is None else _quotient(run, int64_value(unit)))

        return result

    return start


def _derivative_x(value: Value | None, unit: int | None) -> Value:
    if unit is not None:
        if value is None or value[0] != DATE:
            raise CommandError(5624900, "$derivative with 'unit' expects the sortBy field to be a Date")
        return int64_value(int_of(value))
    if value is not None and value[0] == DATE:
        raise CommandError(5624901, "$derivative where the sortBy is a Date requires an 'unit'")
    if value is None or value[0] not in NUMBERS:
        raise CommandError(5624902, "$derivative (with no 'unit') expects the sortBy field to be numeric")
    return value


def _derivative_y(value: Value | None) -> Value:
    if value is None or is_nullish(value):
        raise CommandError(5624903, "$derivative input must not be null or missing")
    if value[0] == DATE:
        return int64_value(int_of(value))
    if value[0] not in NUMBERS:
        raise CommandError(Code.TypeMismatch, f"$derivative input must be numeric, not {type_name(value)}")
    return value


def _quotient(a: Value, b: Value) -> Value:
    if DECIMAL in (a[0], b[0]):
        return from_decimal(DECIMAL_CONTEXT.divide(to_decimal(a), to_decimal(b)))
    return double_value(to_float(a) / to_float(b))


def _parse_integral(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    source, unit = _input_and_unit(name, argument, fields, parser)
    bounds = parse_window(window, fields, parser)

    def start(partition: Partition) -> Placed:
        return _Integral(partition, _values(source, partition), unit, bounds).result

    return start


class _Integral:
    """The sum of the areas between neighbours in the window, each kept until it leaves."""

    def __init__(self, partition: Partition, value_at: Placed, unit: int | None, window: Window) -> None:
        self._partition = partition
        self._value_at = value_at
        self._unit = unit
        self._slices = window.slices(partition.sort_value, len(partition), partition.descending)
        self._points: dict[int, tuple[Value, Value]] = {}
        self._total: Value = int32_value(0)
        self._first = 0
        self._reached = 0

    def _point(self, position: int) -> tuple[Value, Value]:
        point = self._points.get(position)
        if point is None:
            point = self._checked(self._partition.sort_value(position)), self._input(position)
            self._points[position] = point
        return point

    def _checked(self, x: Value | None) -> Value:
        if self._unit is not None:
            if x is None or x[0] != DATE:
                raise CommandError(5423901, "$integral with 'unit' expects the sortBy field to be a Date")
            return int64_value(int_of(x))
        if x is not None and x[0] == DATE:
            raise CommandError(5423902, "$integral (with no 'unit') expects the sortBy field to be numeric")
        if x is None or x[0] not in NUMBERS:
            raise CommandError(5423900, "$integral needs a numeric sort field and a numeric input")
        return x

    def _input(self, position: int) -> Value:
        y = self._value_at(position)
        if y is None or y[0] not in NUMBERS:
            raise CommandError(5423900, "$integral needs a numeric sort field and a numeric input")
        return y

    def _area(self, position: int) -> Value:
        """Return the area between a position and the previous one."""
        (x0, y0), (x1, y1) = self._point(position - 1), self._point(position)
        return _quotient(times(minus(x1, x0), plus(y0, y1)), int32_value(2))

    def result(self, position: int) -> Value:
        bounds = self._slices(position)
        if bounds is None:
            return NOT_YET
        start, end = bounds
        stop = self._reached + self._first + STEPS
        while self._reached < end:
            if self._reached + self._first == stop:
                return NOT_YET
            if self._reached >= start:
                self._point(self._reached)
                if self._reached > max(start, self._first):
                    self._total = plus(self._total, self._area(self._reached))
            self._reached += 1
        while self._first < start:
            if self._reached + self._first == stop:
                return NOT_YET
            if self._first + 1 < self._reached and self._first in self._points and self._first + 1 in self._points:
                self._total = minus(self._total, self._area(self._first + 1))
            self._points.pop(self._first - 1, None)
            self._first += 1
        self._reached = max(self._reached, self._first)
        if end <= start:
            return NULL_VALUE
        if end - start == 1:
            self._total = int32_value(0)
        return self._total if self._unit is None else _quotient(self._total, int64_value(self._unit))


def _parse_last_seen(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    if window is not None:
        raise _failed(f"'window' field is not allowed in {name}")
    source = source_of(parser.expression(argument))

    def start(partition: Partition) -> Placed:
        value_at = _values(source, partition)
        last: Value = NULL_VALUE

        def result(position: int) -> Value:
            nonlocal last
            value = value_at(position)
            if value is not None and not is_nullish(value):
                last = value
            return last

        return result

    return start


def _parse_linear_fill(
    name: str, argument: Value, window: Value | None, fields: Fields | None, parser: Parser
) -> Callable[[Partition], Placed]:
    if window is not None:
        raise _failed(f"'window' field is not allowed in {name}")
    if fields is None or len(fields) != 1:
        raise CommandError(
            605001, f"{name} must be specified with a top level sortBy expression with exactly one element"
        )
    source = source_of(parser.expression(argument))
    return lambda partition: _LinearFill(partition, _values(source, partition)).result


class _LinearFill:
    """Linear interpolation between two known values."""

    def __init__(self, partition: Partition, value_at: Placed) -> None:
        self._partition = partition
        self._value_at = value_at
        self._last_point: tuple[Value, Value] | None = None
        self._next: tuple[int, tuple[Value, Value] | None] = (-1, None)
        """The position of the next known point, and the point; None after the last one."""
        self._looked = 0

    def _x(self, position: int) -> Value:
        x = self._partition.sort_value(position)
        if x is not None and x[0] == DATE:
            return int64_value(int_of(x))
        if x is None or x[0] not in NUMBERS:
            raise CommandError(
                Code.TypeMismatch, f"Value of the sort field must be numeric or a date, not {type_name(x)}"
            )
        if position and compare(self._partition.sort_value(position - 1) or NULL_VALUE, x) == 0:
            raise CommandError(6050106, "There can be no repeated values in the sort field")
        return x

    def _y(self, position: int) -> Value | None:
        y = self._value_at(position)
        if y is None or is_nullish(y):
            return None
        if y[0] not in NUMBERS:
            raise CommandError(
                Code.TypeMismatch, f"Value to be filled must be numeric or nullish, but found {type_name(y)}"
            )
        return y

    def result(self, position: int) -> Value:
        x, y = self._x(position), self._y(position)
        if y is not None:
            self._last_point = x, y
            return y
        if self._last_point is None:
            return NULL_VALUE
        if not self._look_ahead(position):
            return NOT_YET
        following = self._next[1]
        if following is None:
            return NULL_VALUE
        (x0, y0), (x1, y1) = self._last_point, following
        slope = _quotient(minus(y1, y0), minus(x1, x0))
        return plus(y0, times(slope, minus(x, x0)))

    def _look_ahead(self, position: int) -> bool:
        """Find the next known point, once per gap; False if it is not found yet."""
        if self._next[0] >= position:
            return True
        begin = max(position + 1, self._looked)
        self._looked = min(begin + STEPS, len(self._partition))
        for at in range(begin, self._looked):
            y = self._y(at)
            if y is not None:
                self._next, self._looked = (at, (self._x(at), y)), at
                return True
        if self._looked < len(self._partition):
            return False
        self._next = self._looked, None
        return True


RANKS = ("$denseRank", "$documentNumber", "$rank")

NEIGHBOURS: Mapping[str, Parse] = {
    "$denseRank": _parse_rank,
    "$derivative": _parse_derivative,
    "$documentNumber": _parse_rank,
    "$expMovingAvg": _parse_moving_average,
    "$integral": _parse_integral,
    "$linearFill": _parse_linear_fill,
    "$locf": _parse_last_seen,
    "$rank": _parse_rank,
    "$shift": _parse_shift,
}
