"""Date parts: `$year` and its like, `$dateToParts`, `$dateFromParts`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from docstore.aggregation.expressions.calculations import date_part
from docstore.aggregation.expressions.model import (
    Evaluate,
    Expression,
    Named,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    folded,
    is_nullish,
    unary,
)
from docstore.aggregation.expressions.time_zones import known_zone, zone_from
from docstore.bson.build import document_from
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import ARRAY, BOOL, DATE, OBJECT, OBJECT_ID, TIMESTAMP, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.compute.calendar import (
    civil,
    day_and_rest,
    day_of,
    day_of_iso_week,
    day_of_year,
    iso_week,
    weekday,
)
from docstore.query.value.notation import display
from docstore.query.value.values import (
    NULL_VALUE,
    NUMBERS,
    int32_value,
    int64_bytes,
    int64_value,
    int_of,
    integral_of,
    is_true,
    type_name,
)

Part = Callable[[int], int]
"""Returns a part of a local time, given in milliseconds."""


def milliseconds_of(value: Value) -> int | None:
    """Return the instant of a date, ObjectId (with signed seconds) or timestamp; None for another type."""
    code = value[0]
    if code == DATE:
        return int_of(value)
    if code == OBJECT_ID:
        return int.from_bytes(value[1][:4], "big", signed=True) * 1000
    if code == TIMESTAMP:
        return int.from_bytes(value[1][4:], "little") * 1000
    return None


def instant_of(value: Value) -> int:
    """Return the instant of a value. Errors: 16006 for other types."""
    instant = milliseconds_of(value)
    if instant is None:
        raise CommandError(16006, f"can't convert from BSON type {type_name(value)} to Date")
    return instant


def date_value(milliseconds: int) -> Value:
    return DATE, int64_bytes(milliseconds)


def sunday_week(day: int) -> int:
    """Return the week of the year, from Sunday to Saturday; days before the first Sunday are in week 0."""
    return (day_of_year(day) + 6 - weekday(day)) // 7


PARTS: dict[str, Part] = {
    "$dayOfMonth": lambda local: civil(local // 86_400_000)[2],
    "$dayOfWeek": lambda local: weekday(local // 86_400_000) + 1,
    "$dayOfYear": lambda local: day_of_year(local // 86_400_000),
    "$hour": lambda local: local // 3_600_000 % 24,
    "$isoDayOfWeek": lambda local: iso_week(local // 86_400_000)[2],
    "$isoWeek": lambda local: iso_week(local // 86_400_000)[1],
    "$isoWeekYear": lambda local: iso_week(local // 86_400_000)[0],
    "$millisecond": lambda local: local % 1000,
    "$minute": lambda local: local // 60_000 % 60,
    "$month": lambda local: civil(local // 86_400_000)[1],
    "$second": lambda local: local // 1000 % 60,
    "$week": lambda local: sunday_week(local // 86_400_000),
    "$year": lambda local: civil(local // 86_400_000)[0],
}
"""All fit in 32 bits; only `$isoWeekYear` is a long."""


def _part(name: str) -> OperatorParser:
    part = PARTS[name]
    make = int64_value if name == "$isoWeekYear" else int32_value

    def parse(operator: str, value: Value, parsing: Parsing) -> Expression:
        date, timezone = _date_and_zone(operator, value, parsing)
        evaluate = date.evaluate

        def of_utc(scope: Scope) -> Value:
            operand = evaluate(scope)
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            return make(part(int_of(operand) if operand[0] == DATE else instant_of(operand)))

        if timezone is None:
            return _in_kernel(name, parsing.scoped(folded(of_utc, [date])), date, None)
        zone_name = timezone.evaluate

        def of_zone(scope: Scope) -> Value:
            operand = evaluate(scope)
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            instant = instant_of(operand)
            zone = zone_from(zone_name, scope, 40533)
            return NULL_VALUE if zone is None else make(part(zone.local(instant)))

        return _in_kernel(name, parsing.scoped(folded(of_zone, [date, timezone])), date, timezone)

    return parse


def _in_kernel(name: str, expression: Expression, date: Expression, timezone: Expression | None) -> Expression:
    """Return the expression evaluated by the kernel, if the zone is constant."""
    zone = known_zone(timezone)
    if expression.is_constant or zone is None:
        return expression
    return date_part(name, replace(expression, arguments=(date,)), zone.clock)


def _date_and_zone(name: str, value: Value, parsing: Parsing) -> tuple[Expression, Expression | None]:
    """Parse the argument: a date, `[date]`, or `{date: ..., timezone: ...}`."""
    if value[0] == ARRAY:
        members = values(value[1])
        if len(members) != 1:
            raise CommandError(
                40536, f"{name} accepts exactly one argument if given an array, but was given {len(members)}"
            )
        return parsing.expression(members[0]), None
    fields = elements(value[1]) if value[0] == OBJECT else []
    if value[0] != OBJECT or (fields and fields[0][0].startswith("$")):
        return parsing.expression(value), None
    arguments: dict[str, Expression] = {}
    for field, code, data in fields:
        if field not in ("date", "timezone"):
            raise CommandError(40535, f'unrecognized option to {name}: "{field}"')
        arguments[field] = parsing.expression((code, data))
    if "date" not in arguments:
        raise CommandError(40539, f"missing 'date' argument to {name}, provided: {display(value)}")
    return arguments["date"], arguments.get("timezone")


_TO_PARTS = Named(40524, 40520, {"date": 40522}, ("timezone", "iso8601"))


def _parse_to_parts(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = {field: parsing.expression(item) for field, item in _TO_PARTS.parameters(name, value).items()}
    date = arguments["date"].evaluate
    timezone = arguments["timezone"].evaluate if "timezone" in arguments else None
    iso = arguments["iso8601"].evaluate if "iso8601" in arguments else None

    def evaluate(scope: Scope) -> Value:
        # The date is evaluated last.
        operand = date(scope)
        zone = zone_from(timezone, scope)
        if zone is None:
            return NULL_VALUE
        by_weeks = iso(scope) if iso is not None else (BOOL, b"\0")
        if by_weeks is None or is_nullish(by_weeks):
            return NULL_VALUE
        if by_weeks[0] != BOOL:
            raise CommandError(40521, f"iso8601 must evaluate to a bool, found {type_name(by_weeks)}")
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        return _parts_document(zone.local(instant_of(operand)), is_true(by_weeks))

    return folded(evaluate, list(arguments.values()))


def _parts_document(local: int, by_weeks: bool) -> Value:
    day, time_of_day = day_and_rest(local)
    if by_weeks:
        named = list(zip(("isoWeekYear", "isoWeek", "isoDayOfWeek"), iso_week(day), strict=True))
    else:
        named = list(zip(("year", "month", "day"), civil(day), strict=True))
    named += [
        ("hour", time_of_day // 3_600_000),
        ("minute", time_of_day // 60_000 % 60),
        ("second", time_of_day // 1000 % 60),
        ("millisecond", time_of_day % 1000),
    ]
    return OBJECT, document_from([(field, *int32_value(number)) for field, number in named])


_TIMES = ("hour", "minute", "second", "millisecond")
_NATURAL = ("year", "month", "day", *_TIMES)
_BY_WEEKS = ("isoWeekYear", "isoWeek", "isoDayOfWeek", *_TIMES)


def _parse_from_parts(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] != OBJECT:
        raise CommandError(40519, f"{name} only supports an object as its argument")
    arguments: dict[str, Expression] = {}
    for field, code, data in elements(value[1]):
        if field != "timezone" and field not in _NATURAL and field not in _BY_WEEKS:
            raise CommandError(40518, f"Unrecognized argument to {name}: {field}")
        arguments[field] = parsing.expression((code, data))
    if "year" not in arguments and "isoWeekYear" not in arguments:
        raise CommandError(40516, f"{name} requires either 'year' or 'isoWeekYear' to be present")
    if "year" in arguments and arguments.keys() & {"isoWeekYear", "isoWeek", "isoDayOfWeek"}:
        raise CommandError(40489, f"{name} does not allow mixing natural dates with ISO dates")
    if "isoWeekYear" in arguments and arguments.keys() & {"year", "month", "day"}:
        raise CommandError(40525, f"{name} does not allow mixing ISO dates with natural dates")
    names = _NATURAL if "year" in arguments else _BY_WEEKS
    functions = [(field, arguments[field].evaluate if field in arguments else None) for field in names]
    timezone = arguments["timezone"].evaluate if "timezone" in arguments else None

    def evaluate(scope: Scope) -> Value:
        zone = zone_from(timezone, scope)
        if zone is None:
            return NULL_VALUE
        parts: list[int] = []
        for field, function in functions:
            part = _part_given(field, function, scope)
            if part is None:
                return NULL_VALUE
            parts.append(part)
        if not 1 <= parts[0] <= 9999:
            raise CommandError(
                40523 if names is _NATURAL else 31095,
                f"'{names[0]}' must evaluate to an integer in the range 1 to 9999, found {parts[0]}",
            )
        day = day_of(*parts[:3]) if names is _NATURAL else day_of_iso_week(*parts[:3])
        hour, minute, second, millisecond = parts[3:]
        local = (day * 86_400 + hour * 3600 + minute * 60 + second) * 1000
        instant = zone.instant(local)
        if abs(instant) > LONG_MAX // 1000 * 1000 or abs(millisecond) > LONG_MAX // 1000:
            raise CommandError(Code.DurationOverflow, "the date is out of range")
        return date_value(instant + millisecond)

    return folded(evaluate, list(arguments.values()))


def _part_given(field: str, function: Evaluate | None, scope: Scope) -> int | None:
    """Return the number for a part: its minimum by default, None for null."""
    if function is None:
        return 0 if field in _TIMES else 1
    operand = function(scope)
    if operand is None or is_nullish(operand):
        return None
    number = integral_of(operand) if operand[0] in NUMBERS else None
    if number is None or not LONG_MIN <= number <= LONG_MAX:
        raise CommandError(
            40515, f"'{field}' must evaluate to an integer, found {type_name(operand)} with value {display(operand)}"
        )
    if field not in ("year", "isoWeekYear", "second", "millisecond") and not -32768 <= number <= 32767:
        raise CommandError(
            31034, f"'{field}' must evaluate to a value in the range [-32768, 32767]; value {number} is not in range"
        )
    return number


def _of_timestamp(name: str, code: int, start: int) -> OperatorParser:
    """Return the operator for the half of a timestamp whose bytes begin at `start`."""

    def calculate(operand: Value | None) -> Value:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] != TIMESTAMP:
            raise CommandError(code, f"Argument to {name} must be a timestamp, but is {type_name(operand)}")
        return int64_value(int.from_bytes(operand[1][start : start + 4], "little"))

    return unary(calculate)


OPERATORS: Table = {
    "$dateFromParts": _parse_from_parts,
    "$dateToParts": _parse_to_parts,
    "$tsIncrement": _of_timestamp("$tsIncrement", 5687302, 0),
    "$tsSecond": _of_timestamp("$tsSecond", 5687301, 4),
    **{name: _part(name) for name in PARTS},
}
