"""Windows: the range of documents of a partition around each document.

Bounds never move backwards from one document to the next, so a window slides. They are computed incrementally: a
request for a window may return None, and must be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docstore.aggregation.expressions.date_arithmetic import add_units, is_unit
from docstore.aggregation.expressions.model import Parsing
from docstore.aggregation.window.partition import Fields
from docstore.aggregation.window.sliding import plus
from docstore.bson.order import compare
from docstore.bson.walk import ARRAY, DATE, OBJECT, STRING, Value, values
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    NUMBERS,
    int32_value,
    int64_bytes,
    int_of,
    integral_of,
    text_of,
    type_name,
)

Bound = Value | None
"""The extent of a window; None: unbounded."""

CURRENT: Value = int32_value(0)
"""The bound "current". In a range window it differs from 0, which includes documents of equal value."""

Slice = tuple[int, int]
"""The positions [start, end) of a window."""

Slices = Callable[[int], Slice | None]
"""Returns the window of each document, requested in order; None: request the same one again."""

STEPS = 32
"""Documents examined before other tasks may run."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window by positions (`ranged` False) or by values of the sort field; `unit`: for dates."""

    lower: Bound = None
    upper: Bound = None
    ranged: bool = False
    unit: str | None = None

    @property
    def is_whole(self) -> bool:
        return self.lower is None and self.upper is None

    def slices(self, sort_value: Callable[[int], Value | None], length: int, descending: bool) -> Slices:
        """Return the windows of a partition of this length; `sort_value` returns the sort value at a position."""
        if self.is_whole:
            return lambda place: (0, length)
        if not self.ranged:
            lower = None if self.lower is None else int_of(self.lower)
            upper = None if self.upper is None else int_of(self.upper)

            def by_position(position: int) -> Slice:
                start = 0 if lower is None else max(0, min(length, position + lower))
                end = length if upper is None else max(0, min(length, position + upper + 1))
                return start, max(start, end)

            return by_position
        if descending:
            raise CommandError(5429404, "range-based bounds require an ascending sortBy")
        return _Ranges(self, sort_value, length).slice


class _Ranges:
    """The range windows of one partition."""

    def __init__(self, window: Window, sort_value: Callable[[int], Value | None], length: int) -> None:
        self._window = window
        self._value = sort_value
        self._length = length
        self._start = 0
        self._end = 0

    def slice(self, position: int) -> Slice | None:
        window = self._window
        value = self._checked(position)
        length = self._length
        steps = 0
        if window.lower is CURRENT:
            self._start = position
        elif window.lower is not None:
            least = self._moved(value, window.lower)
            while self._start < length and compare(self._checked(self._start), least) < 0:
                self._start += 1
                steps += 1
                if steps == STEPS:
                    return None
        if window.upper is None:
            self._end = length
        elif window.upper is CURRENT:
            self._end = position + 1
        else:
            most = self._moved(value, window.upper)
            while self._end < length and compare(self._checked(self._end), most) <= 0:
                self._end += 1
                steps += 1
                if steps == STEPS:
                    return None
        return self._start, max(self._start, self._end)

    def _checked(self, position: int) -> Value:
        value = self._value(position)
        if self._window.unit is not None:
            if value is None or value[0] != DATE:
                raise CommandError(
                    5429513, f"Invalid range: Expected the sortBy field to be a Date, but it was {type_name(value)}"
                )
        elif value is not None and value[0] == DATE:
            raise CommandError(5429413, "Invalid range: a unit must be provided for windows over dates")
        elif value is None or value[0] not in NUMBERS:
            raise CommandError(
                5429414, f"Invalid range: Expected the sortBy field to be a number, but it was {type_name(value)}"
            )
        return value

    def _moved(self, value: Value, offset: Value) -> Value:
        if self._window.unit is None:
            return plus(value, offset)
        amount = integral_of(offset)
        assert amount is not None
        return DATE, int64_bytes(add_units(int_of(value), self._window.unit, amount))


WHOLE = Window()


def unit_of(value: Value) -> str:
    """Return the name of a time unit. Errors: FailedToParse."""
    if value[0] != STRING:
        raise CommandError(Code.FailedToParse, "'unit' must be a string")
    if not is_unit(text_of(value)):
        raise CommandError(Code.FailedToParse, f"unknown time unit value: {text_of(value)}")
    return text_of(value)


def parse_window(value: Value | None, sort_fields: Fields | None, parsing: Parsing) -> Window:
    """Parse the `window` of an output. `sort_fields`: the stage's sort; None: it has none.

    Numbers may be constant expressions.
    """
    if value is None:
        return WHOLE
    if value[0] != OBJECT:
        raise CommandError(Code.FailedToParse, "'window' field must be an object")
    options = option_fields("window", value[1], _specified_twice)
    for name in options:
        if name not in ("documents", "range", "unit"):
            raise CommandError(Code.FailedToParse, f"'window' has no option {name}")
    if "documents" in options and "range" in options:
        raise CommandError(Code.FailedToParse, "Window bounds can specify either 'documents' or 'range', not both")
    if "range" not in options and "unit" in options:
        raise CommandError(Code.FailedToParse, "Window bounds can only specify 'unit' with range-based bounds.")
    if "documents" in options:
        lower, upper = (_parse_position_bound(bound) for bound in _bounds("documents", options["documents"], parsing))
        if sort_fields is None and not (lower is None and upper is None):
            raise CommandError(5339901, "Document-based bounds require a sortBy")
        return _ordered(Window(lower, upper))
    if "range" not in options:
        return WHOLE
    unit = unit_of(options["unit"]) if "unit" in options else None
    lower, upper = (_distance(bound, unit) for bound in _bounds("range", options["range"], parsing))
    if sort_fields is None or len(sort_fields) != 1:
        raise CommandError(5339902, "Range-based bounds require sortBy a single field")
    return _ordered(Window(lower, upper, ranged=True, unit=unit))


def _specified_twice(name: str) -> CommandError:
    return CommandError(Code.FailedToParse, f"'window' field that specifies {name} cannot have other fields")


def _bounds(kind: str, value: Value, parsing: Parsing) -> list[Value]:
    members = values(value[1]) if value[0] == ARRAY else []
    if len(members) != 2:
        raise CommandError(Code.FailedToParse, f"Window bounds must be a 2-element array: {kind}: {display(value)}")
    return [_constant(member, parsing) for member in members]


def _constant(bound: Value, parsing: Parsing) -> Value:
    """Return the value of a constant expression; any other bound unchanged."""
    expression = parsing.expression(bound) if bound[0] == OBJECT else None
    constant_value = expression.constant if expression is not None and expression.is_constant else None
    return bound if constant_value is None else constant_value


def _named(bound: Value) -> tuple[bool, Bound]:
    """Return (True if the bound is a keyword, the bound it denotes)."""
    if bound[0] != STRING:
        return False, None
    if text_of(bound) == "unbounded":
        return True, None
    if text_of(bound) == "current":
        return True, CURRENT
    raise CommandError(Code.FailedToParse, "Window bounds must be 'unbounded', 'current', or a number.")


def _parse_position_bound(bound: Value) -> Bound:
    named, keyword_bound = _named(bound)
    if named:
        return keyword_bound
    number = integral_of(bound) if bound[0] in NUMBERS else None
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise CommandError(Code.FailedToParse, "Numeric document-based bounds must be an integer")
    return int32_value(number)


def _distance(bound: Value, unit: str | None) -> Bound:
    named, keyword_bound = _named(bound)
    if named:
        return keyword_bound
    if bound[0] not in NUMBERS:
        raise CommandError(Code.FailedToParse, "Range-based bounds expression must be a number")
    if unit is not None and integral_of(bound) is None:
        raise CommandError(Code.FailedToParse, "With 'unit', range-based bounds must be an integer")
    return bound


def _ordered(window: Window) -> Window:
    if window.lower is not None and window.upper is not None and compare(window.lower, window.upper) > 0:
        raise CommandError(
            5339900, f"Lower bound must not exceed upper bound: {display(window.lower)}, {display(window.upper)}"
        )
    return window
