"""Conversion of dates to and from text: `$dateToString`, `$dateFromString`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from docstore.aggregation.expressions.calculations import date_text
from docstore.aggregation.expressions.date_parsing import FROM_TEXT, TO_TEXT, check_format, instant_of_text
from docstore.aggregation.expressions.date_parts import PARTS, date_value, instant_of, sunday_week
from docstore.aggregation.expressions.model import (
    Evaluate,
    Expression,
    Named,
    Parsing,
    Scope,
    Table,
    folded,
    is_nullish,
)
from docstore.aggregation.expressions.time_zones import ZONE_UTC, Zone, known_zone, zone_from
from docstore.bson.walk import STRING, Value
from docstore.errors import Code, CommandError
from docstore.kernel.compute.calendar import civil, day_of_year, iso_week, weekday
from docstore.kernel.compute.dates import DATE_PARTS
from docstore.query.value.notation import display
from docstore.query.value.values import NULL_VALUE, string_value, text_of, type_name

ISO_FORMAT = "%Y-%m-%dT%H:%M:%S.%LZ"
"""The default format. The Z is printed for any zone."""

_TO_STRING = Named(18629, 18534, {"date": 18628}, ("format", "timezone", "onNull"))
_FROM_STRING = Named(40540, 40541, {"dateString": 40542}, ("format", "timezone", "onError", "onNull"))


def format_date(instant: int, layout: str, zone: Zone = ZONE_UTC) -> str:
    """Return a date in a checked format. Errors: 18537 for a formatted year that does not have four digits."""
    offset = zone.offset(instant)
    local = instant + offset * 1000
    written: list[str] = []
    for literal, letter in _pieces(layout):
        written.append(literal)
        if letter:
            written.append(_written(letter, local, offset))
    return "".join(written)


@lru_cache(maxsize=256)
def _pieces(layout: str) -> tuple[tuple[str, str], ...]:
    """Return the format as (text, following letter) pairs; the last letter is empty."""
    pieces: list[tuple[str, str]] = []
    text = ""
    letters = iter(layout)
    for letter in letters:
        if letter != "%" or (letter := next(letters)) == "%":
            text += letter
        else:
            pieces.append((text, letter))
            text = ""
    return (*pieces, (text, ""))


def _written(letter: str, local: int, offset: int) -> str:
    day = local // 86_400_000
    if letter == "Y":
        return _year(civil(day)[0])
    if letter == "m":
        return f"{civil(day)[1]:02d}"
    if letter == "d":
        return f"{civil(day)[2]:02d}"
    if letter in "HMS":
        return f"{PARTS[{'H': '$hour', 'M': '$minute', 'S': '$second'}[letter]](local):02d}"
    if letter == "L":
        return f"{local % 1000:03d}"
    if letter == "j":
        return f"{day_of_year(day):03d}"
    if letter == "w":
        return str(weekday(day) + 1)
    if letter == "U":
        return f"{sunday_week(day):02d}"
    if letter in "GVu":
        year, week, of_week = iso_week(day)
        return {"G": lambda: _year(year), "V": lambda: f"{week:02d}", "u": lambda: str(of_week)}[letter]()
    minutes = abs(offset) // 60
    if letter == "z":
        return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}{minutes % 60:02d}"
    return str(-minutes if offset < 0 else minutes)


def _year(year: int) -> str:
    if not 0 <= year <= 9999:
        raise CommandError(
            18537, f"Could not convert date to string: date component was outside the supported range of 0-9999: {year}"
        )
    return f"{year:04d}"


def _format_from(name: str, evaluate: Evaluate, scope: Scope, letters: frozenset[str], code: int) -> str | None:
    """Return the checked format of a parameter; None for null."""
    format_value = evaluate(scope)
    if format_value is None or is_nullish(format_value):
        return None
    if format_value[0] != STRING:
        raise CommandError(
            code,
            f"{name} requires that 'format' be a string, found: {type_name(format_value)} with value"
            f" {display(format_value)}",
        )
    text = text_of(format_value)
    check_format(text, letters)
    return text


def _parse_to_string(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = {field: parsing.expression(item) for field, item in _TO_STRING.parameters(name, value).items()}
    functions = {field: expression.evaluate for field, expression in arguments.items()}
    layout_of, timezone, on_null = (functions.get(field) for field in ("format", "timezone", "onNull"))
    date_of = functions["date"]

    def evaluate(scope: Scope) -> Value | None:
        layout = ISO_FORMAT if layout_of is None else _format_from(name, layout_of, scope, TO_TEXT, 18533)
        zone = zone_from(timezone, scope)
        date = date_of(scope)
        if date is None or is_nullish(date):
            return NULL_VALUE if on_null is None else on_null(scope)
        if zone is None or layout is None:
            return NULL_VALUE
        return string_value(format_date(instant_of(date), layout, zone))

    operation = folded(evaluate, list(arguments.values()))
    zone = known_zone(arguments.get("timezone"))
    pieces = None if operation.is_constant or zone is None else _plain_pieces(arguments)
    if zone is None or pieces is None:
        return operation
    return date_text(replace(parsing.scoped(operation), arguments=(arguments["date"],)), pieces, zone.clock)


def _plain_pieces(arguments: dict[str, Expression]) -> list[tuple[str | None, bytes]] | None:
    """Return the pieces of a format that contains only numbers; None for others."""
    layout = ISO_FORMAT
    if not arguments.keys() <= {"date", "format", "timezone"}:
        return None
    if "format" in arguments:
        value = arguments["format"].constant
        if value is None or value[0] != STRING:
            return None
        layout = text_of(value)
        check_format(layout, TO_TEXT)
    pieces: list[tuple[str | None, bytes]] = []
    for literal, letter in _pieces(layout):
        if letter and letter not in DATE_PARTS:
            return None
        pieces += [(None, literal.encode()), *([(letter, b"")] if letter else [])]
    return pieces


def _parse_from_string(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = {field: parsing.expression(item) for field, item in _FROM_STRING.parameters(name, value).items()}
    functions = {field: expression.evaluate for field, expression in arguments.items()}
    layout_of, timezone, on_null = (functions.get(field) for field in ("format", "timezone", "onNull"))
    text_from = functions["dateString"]

    def evaluate(scope: Scope) -> Value | None:
        zone = zone_from(timezone, scope)
        layout = None if layout_of is None else _format_from(name, layout_of, scope, FROM_TEXT, 40684)
        text = text_from(scope)
        if text is None or is_nullish(text):
            return NULL_VALUE if on_null is None else on_null(scope)
        if zone is None or (layout_of is not None and layout is None):
            return NULL_VALUE
        try:
            if text[0] != STRING:
                raise CommandError(
                    Code.ConversionFailure,
                    f"{name} requires that 'dateString' be a string, found: {type_name(text)} with value"
                    f" {display(text)}",
                )
            return date_value(instant_of_text(text_of(text), zone if timezone is not None else None, layout))
        except CommandError as error:
            if error.code != Code.ConversionFailure or "onError" not in functions:
                raise
            return functions["onError"](scope)

    return folded(evaluate, list(arguments.values()))


OPERATORS: Table = {
    "$dateFromString": _parse_from_string,
    "$dateToString": _parse_to_string,
}
