"""Date arithmetic: `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

Units of a day and more follow a zone's calendar; smaller ones are durations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from docstore.aggregation.expressions.calculations import date_bin, date_distance, date_sum
from docstore.aggregation.expressions.date_parts import date_value, milliseconds_of
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
)
from docstore.aggregation.expressions.time_zones import ZONE_UTC, Zone, known_zone, zone_from
from docstore.aggregation.limits import MAX_BIN_UNITS, MAX_KERNEL_BIN_UNITS
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import Code, CommandError
from docstore.kernel.compute.calendar import civil, day_and_rest, day_of, weekday
from docstore.query.value.values import NULL_VALUE, NUMBERS, int64_value, integral_of, text_of, type_name

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_LENGTHS = {"hour": 3_600_000, "minute": 60_000, "second": 1000, "millisecond": 1}
"""Units by their months, days and milliseconds."""

_AMOUNT_LIMITS = {
    "year": 584_942_417,
    "quarter": 2_339_769_671,
    "month": 7_019_309_015,
    "week": 30_500_568_904,
    "day": 213_503_982_334,
    "hour": 5_124_095_576_039,
    "minute": 307_445_734_562_399,
    "second": 18_446_744_073_743_999,
    "millisecond": LONG_MAX + 1,
}
"""Maximum amount per unit: about the distance between the minimum and maximum date."""

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_BINS_BEGIN = 10_957
"""The origin of bins of several units, as a day number: 2000-01-01."""

_DAY = 86_400_000


def is_unit(name: str) -> bool:
    return name in _AMOUNT_LIMITS


def add_units(instant: int, unit: str, amount: int, zone: Zone = ZONE_UTC) -> int:
    """Return the instant plus an amount of units. The day of the month is clamped to the new month."""
    if abs(amount) > _AMOUNT_LIMITS[unit]:
        raise CommandError(5976500, f"invalid dateAdd 'amount' parameter value: {amount} {unit}")
    if unit in _LENGTHS:
        moved = instant + amount * _LENGTHS[unit]
    else:
        local = zone.local(instant)
        day, time_of_day = day_and_rest(local)
        moved_day = day + amount * _DAYS[unit] if unit in _DAYS else add_months(day, amount * _MONTHS[unit])
        moved = moved_day * _DAY + time_of_day
        moved = zone.instant(moved, zone.is_summer(instant)) if amount else instant
    if instant < 0 and instant % 1000 and unit != "millisecond":
        # The reference truncates the seconds of dates before 1970 towards zero, so its result is one second early.
        moved -= 1000
    if not LONG_MIN <= moved <= LONG_MAX:
        if unit == "millisecond":
            raise CommandError(Code.DurationOverflow, "Overflow while adding to a date")
        raise CommandError(5166406, "dateAdd overflowed")
    return moved


def add_months(day: int, months: int) -> int:
    year, month, of_month = civil(day)
    first = day_of(year, month + months, 1)
    length = day_of(year, month + months + 1, 1) - first
    return first + min(of_month, length) - 1


def _adding(name: str, sign: int) -> OperatorParser:
    def parse(operator: str, value: Value, parsing: Parsing) -> Expression:
        if value[0] != OBJECT:
            raise CommandError(5166400, f"{name} expects an object as its argument")
        arguments: dict[str, Expression] = {}
        for field, code, data in elements(value[1]):
            if field not in ("startDate", "unit", "amount", "timezone"):
                raise CommandError(5166401, f"Unrecognized argument to {name}: {field}")
            arguments[field] = parsing.expression((code, data))
        if not arguments.keys() >= {"startDate", "unit", "amount"}:
            raise CommandError(5166402, f"{name} requires startDate, unit, and amount to be present")
        start, unit, amount = (arguments[field].evaluate for field in ("startDate", "unit", "amount"))
        timezone = arguments["timezone"].evaluate if "timezone" in arguments else None

        def evaluate(scope: Scope) -> Value:
            present: list[Value] = []
            for evaluate_one in (start, unit, amount):
                operand = evaluate_one(scope)
                if operand is None or is_nullish(operand):
                    return NULL_VALUE
                present.append(operand)
            return _moved(name, sign, present, zone_from(timezone, scope))

        operation = folded(evaluate, list(arguments.values()))
        plain = None if operation.is_constant or "timezone" in arguments else _plain_unit(arguments)
        if plain is None:
            return operation
        months, length, _ = plain
        operation = replace(parsing.scoped(operation), arguments=(arguments["startDate"], arguments["amount"]))
        return date_sum(operation, months=sign * months, length=sign * length)

    return parse


def _plain_unit(arguments: dict[str, Expression]) -> tuple[int, int, int] | None:
    """Return (months, milliseconds, first day of weeks) of a constant unit; None if it is not constant, or invalid."""
    unit = arguments["unit"].constant
    if unit is None or unit[0] != STRING or not is_unit(name := text_of(unit)):
        return None
    week_start = 0
    if "startOfWeek" in arguments and name == "week":
        named = arguments["startOfWeek"].constant
        if named is None or named[0] != STRING:
            return None
        weekday_number = _weekday_of(text_of(named))
        if weekday_number is None:
            return None
        week_start = weekday_number
    length = _LENGTHS.get(name, _DAYS.get(name, 0) * _DAY)
    # Day 0 was a Thursday.
    return _MONTHS.get(name, 0), length, week_start - 4


def _moved(name: str, sign: int, operands: list[Value], zone: Zone | None) -> Value:
    date, unit, amount = operands
    if zone is None:
        return NULL_VALUE
    instant = milliseconds_of(date)
    if instant is None:
        raise CommandError(5166403, f"{name} requires startDate to be convertible to a date")
    if unit[0] != STRING:
        raise CommandError(5166404, f"{name} expects string defining the time unit")
    if not is_unit(text_of(unit)):
        raise CommandError(Code.FailedToParse, f"unknown time unit value: {text_of(unit)}")
    number = integral_of(amount) if amount[0] in NUMBERS else None
    if number is None or not LONG_MIN <= number <= LONG_MAX:
        raise CommandError(5166405, f"{name} expects integer amount of time units")
    if sign < 0 and number == LONG_MIN:
        raise CommandError(6045000, f"invalid {name} 'amount' parameter value: {number}")
    return date_value(add_units(instant, text_of(unit), sign * number, zone))


def difference(start: int, end: int, unit: str, zone: Zone = ZONE_UTC, week_start: int = 0) -> int:
    """Return the number of unit boundaries between two instants."""
    if unit == "millisecond":
        return end - start
    first, last = zone.local(start), zone.local(end)
    if unit in _LENGTHS:
        # Local boundaries, corrected by the hours that a clock change removes or adds.
        size = _LENGTHS[unit]
        shift = (first - start) - (last - end)
        return last // size - first // size + int(shift / size)
    first_day, last_day = first // _DAY, last // _DAY
    if unit == "day":
        return last_day - first_day
    if unit == "week":
        return (last_day - _days_into_week(last_day, week_start)) // 7 - (
            first_day - _days_into_week(first_day, week_start)
        ) // 7
    return _month_number(last_day) // _MONTHS[unit] - _month_number(first_day) // _MONTHS[unit]


def _days_into_week(day: int, week_start: int) -> int:
    return (weekday(day) - week_start) % 7


def _month_number(day: int) -> int:
    year, month, _ = civil(day)
    return year * 12 + month - 1


@dataclass(frozen=True, slots=True)
class _UnitParameters:
    """The parameters shared by `$dateDiff` and `$dateTrunc`, none of them null."""

    unit: Value
    zone: Zone
    week_start: Value | None

    def checked(self, name: str) -> tuple[str, int]:
        """Return (unit, first day of the week). Errors: those of `name`."""
        if self.unit[0] != STRING:
            raise CommandError(5439013, f"{name} requires 'unit' to be a string, but got {type_name(self.unit)}")
        unit = text_of(self.unit)
        if not is_unit(unit):
            raise CommandError(5439014, f"{name} parameter 'unit' value cannot be recognized as a time unit: {unit}")
        return unit, 0 if self.week_start is None else _weekday_named(name, self.week_start)


def _evaluate_parameters(functions: dict[str, Evaluate], scope: Scope, unit: Value | None) -> _UnitParameters | None:
    """Return the parameters; None if one is null. The first day of the week is evaluated for weeks only."""
    if unit is None or is_nullish(unit):
        return None
    week_start: Value | None = None
    if "startOfWeek" in functions and unit[0] == STRING and text_of(unit) == "week":
        week_start = functions["startOfWeek"](scope)
        if week_start is None or is_nullish(week_start):
            return None
    zone = zone_from(functions.get("timezone"), scope)
    return None if zone is None else _UnitParameters(unit, zone, week_start)


def _weekday_named(name: str, value: Value) -> int:
    if value[0] != STRING:
        raise CommandError(5439015, f"{name} requires 'startOfWeek' to be a string, but got {type_name(value)}")
    weekday_number = _weekday_of(text_of(value))
    if weekday_number is None:
        raise CommandError(
            5439016, f"{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {text_of(value)}"
        )
    return weekday_number


def _weekday_of(text: str) -> int | None:
    text = text.lower()
    return next((index for index, name in enumerate(_WEEKDAYS) if text in (name, name[:3])), None)


_DIFF = Named(
    5166301,
    5166302,
    {"startDate": 5166303, "endDate": 5166304, "unit": 5166305},
    ("timezone", "startOfWeek"),
)
_TRUNC = Named(5439007, 5439008, {"date": 5439009, "unit": 5439010}, ("binSize", "timezone", "startOfWeek"))


def _parse_difference(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = {field: parsing.expression(item) for field, item in _DIFF.parameters(name, value).items()}
    functions = {field: expression.evaluate for field, expression in arguments.items()}

    def evaluate(scope: Scope) -> Value:
        start = functions["startDate"](scope)
        if start is None or is_nullish(start):
            return NULL_VALUE
        end = functions["endDate"](scope)
        if end is None or is_nullish(end):
            return NULL_VALUE
        parameters = _evaluate_parameters(functions, scope, functions["unit"](scope))
        if parameters is None:
            return NULL_VALUE
        instants: list[int] = []
        for field, operand in (("startDate", start), ("endDate", end)):
            instant = milliseconds_of(operand)
            if instant is None:
                raise CommandError(5166307, f"{name} requires '{field}' to be a date, but got {type_name(operand)}")
            instants.append(instant)
        unit, week_start = parameters.checked(name)
        distance = difference(instants[0], instants[1], unit, parameters.zone, week_start)
        if not LONG_MIN <= distance <= LONG_MAX:
            raise CommandError(5166308, "dateDiff overflowed")
        return int64_value(distance)

    operation = folded(evaluate, list(arguments.values()))
    plain = None if operation.is_constant or "timezone" in arguments else _plain_unit(arguments)
    if plain is None:
        return operation
    months, length, week_start = plain
    operation = replace(parsing.scoped(operation), arguments=(arguments["startDate"], arguments["endDate"]))
    begin = week_start * _DAY if length == 7 * _DAY else 0
    return date_distance(operation, months=months, length=length, begin=begin)


def truncate(instant: int, unit: str, size: int, zone: Zone = ZONE_UTC, week_start: int = 0) -> int:
    """Return the start of the bin that contains an instant; bins count from the year 2000."""
    if unit in _LENGTHS:
        begin = zone.instant(_BINS_BEGIN * _DAY)
        length = _LENGTHS[unit] * size
        return begin + (instant - begin) // length * length
    if size > MAX_BIN_UNITS:
        raise CommandError(5439006, "dateTrunc unsupported binSize value")
    day = zone.local(instant) // _DAY
    if unit in _DAYS:
        begin = _BINS_BEGIN
        if unit == "week":
            begin += (week_start - weekday(_BINS_BEGIN)) % 7
        length = _DAYS[unit] * size
        start_day = begin + (day - begin) // length * length
    else:
        months = _MONTHS[unit] * size
        start_day = day_of(2000, (_month_number(day) - 24_000) // months * months + 1, 1)
    return zone.instant(start_day * _DAY)


def _parse_truncation(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = {field: parsing.expression(item) for field, item in _TRUNC.parameters(name, value).items()}
    functions = {field: expression.evaluate for field, expression in arguments.items()}

    def evaluate(scope: Scope) -> Value:
        date = functions["date"](scope)
        if date is None or is_nullish(date):
            return NULL_VALUE
        named = functions["unit"](scope)
        if named is None or is_nullish(named):
            return NULL_VALUE
        size = functions["binSize"](scope) if "binSize" in functions else int64_value(1)
        if size is None or is_nullish(size):
            return NULL_VALUE
        parameters = _evaluate_parameters(functions, scope, named)
        if parameters is None:
            return NULL_VALUE
        instant = milliseconds_of(date)
        if instant is None:
            raise CommandError(5439012, f"{name} requires 'date' to be a date, but got {type_name(date)}")
        unit, week_start = parameters.checked(name)
        number = integral_of(size) if size[0] in NUMBERS else None
        if number is None or not LONG_MIN <= number <= LONG_MAX:
            raise CommandError(5439017, f"{name} requires 'binSize' to be a 64-bit integer")
        if number <= 0:
            raise CommandError(5439018, f"{name} requires 'binSize' to be greater than 0, but got value {number}")
        bin_start = truncate(instant, unit, number, parameters.zone, week_start)
        if not LONG_MIN <= bin_start <= LONG_MAX:
            raise CommandError(5166406, "dateAdd overflowed")
        return date_value(bin_start)

    operation = folded(evaluate, list(arguments.values()))
    zone = known_zone(arguments.get("timezone"))
    plain = None if operation.is_constant else _plain_unit(arguments)
    size = arguments["binSize"].constant if "binSize" in arguments else int64_value(1)
    number = integral_of(size) if size is not None and size[0] in NUMBERS else None
    if zone is None or plain is None or number is None or not 0 < number <= MAX_KERNEL_BIN_UNITS:
        return operation
    months, length, week_start = plain
    begin = _BINS_BEGIN
    if length == 7 * _DAY:
        begin += (week_start + 4 - weekday(_BINS_BEGIN)) % 7
    operation = replace(parsing.scoped(operation), arguments=(arguments["date"],))
    first = 24_000 if months else begin * _DAY
    clocks = None if zone.clock is None else (zone.clock, zone.instant)
    if not months and length < _DAY:
        # Bins of durations count elapsed time, across clock changes.
        first, clocks = zone.instant(first), None
    return date_bin(operation, months=months * number, length=length * number, begin=first, clocks=clocks)


OPERATORS: Table = {
    "$dateAdd": _adding("$dateAdd", 1),
    "$dateDiff": _parse_difference,
    "$dateSubtract": _adding("$dateSubtract", -1),
    "$dateTrunc": _parse_truncation,
}
