"""Dates in columns of CSV and TSV, in the layouts of Go, .NET or Oracle that a type names.

Each layout becomes a regular expression with a named group for each part. Parts missing from a layout are those of
the beginning of the period. Without a zone in the text the time is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS = "mon|tue|wed|thu|fri|sat|sun"
_LONG_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"

_YEAR, _SHORT_YEAR = r"(?P<year>\d{4})", r"(?P<short_year>\d{2})"
_MONTH, _LOOSE_MONTH = r"(?P<month>\d{2})", r"(?P<month>\d{1,2})"
_DAY, _LOOSE_DAY = r"(?P<day>\d{2})", r"(?P<day> ?\d{1,2})"
_HOUR, _LOOSE_HOUR = r"(?P<hour>\d{2})", r"(?P<hour>\d{1,2})"
_HOUR_12, _LOOSE_HOUR_12 = r"(?P<hour_12>\d{2})", r"(?P<hour_12>\d{1,2})"
_MINUTE, _LOOSE_MINUTE = r"(?P<minute>\d{2})", r"(?P<minute>\d{1,2})"
_SECOND, _LOOSE_SECOND = r"(?P<second>\d{2})", r"(?P<second>\d{1,2})"
_HALF = r"(?P<half>[ap]m)"
_ZONE = r"(?P<zone>Z|[+-]\d{2}:?\d{2})"
_NAME, _LONG_NAME = f"(?P<month_name>{'|'.join(_MONTHS)})", f"(?P<month_name>{'|'.join(_LONG_MONTHS)})"

_GO = {
    "2006": _YEAR, "06": _SHORT_YEAR, "January": _LONG_NAME, "Jan": _NAME, "01": _MONTH, "1": _LOOSE_MONTH,
    "Monday": f"(?:{_LONG_DAYS})", "Mon": f"(?:{_DAYS})", "02": _DAY, "_2": _LOOSE_DAY, "2": _LOOSE_DAY,
    "15": _HOUR, "03": _HOUR_12, "3": _LOOSE_HOUR_12, "04": _MINUTE, "4": _LOOSE_MINUTE,
    "05": r"(?P<second>\d{2})(?:\.(?P<more>\d+))?", "5": _LOOSE_SECOND, "PM": _HALF, "pm": _HALF,
    "MST": r"(?P<utc>UTC|GMT|Z)", "Z07:00": _ZONE, "Z0700": _ZONE, "-07:00": _ZONE, "-0700": _ZONE,
}  # fmt: skip
_GO_PARTS = re.compile("|".join((r"\.0+", r"\.9+", *map(re.escape, sorted(_GO, key=len, reverse=True)))))

_MS = {
    "yyyy": _YEAR, "yy": _SHORT_YEAR, "MMMM": _LONG_NAME, "MMM": _NAME, "MM": _MONTH, "M": _LOOSE_MONTH,
    "dddd": f"(?:{_LONG_DAYS})", "ddd": f"(?:{_DAYS})", "dd": _DAY, "d": _LOOSE_DAY, "HH": _HOUR, "H": _LOOSE_HOUR,
    "hh": _HOUR_12, "h": _LOOSE_HOUR_12, "mm": _MINUTE, "m": _LOOSE_MINUTE, "ss": _SECOND, "s": _LOOSE_SECOND,
    "fff": r"(?P<fraction>\d{3})", "tt": _HALF, "zzz": _ZONE,
}  # fmt: skip
_MS_PARTS = re.compile(r"([A-Za-z])\1*")

_ORACLE = {
    "YYYY": _YEAR, "YY": _SHORT_YEAR, "MONTH": _LONG_NAME, "MON": _NAME, "MM": _MONTH, "DAY": f"(?:{_LONG_DAYS})",
    "DY": f"(?:{_DAYS})", "DD": _DAY, "HH24": _HOUR, "HH12": _HOUR_12, "HH": _HOUR_12, "MI": _MINUTE, "SS": _SECOND,
    "FF": r"(?P<fraction>\d{1,9})", "AM": _HALF, "PM": _HALF, "TZH:TZM": _ZONE,
}  # fmt: skip
_ORACLE_PARTS = re.compile("|".join((*map(re.escape, sorted(_ORACLE, key=len, reverse=True)), "[A-Za-z0-9]+")), re.I)

_LAYOUTS: dict[str, tuple[dict[str, str], re.Pattern[str], Callable[[str], str]]] = {
    "date": (_GO, _GO_PARTS, str),
    "date_go": (_GO, _GO_PARTS, str),
    "date_ms": (_MS, _MS_PARTS, str),
    "date_oracle": (_ORACLE, _ORACLE_PARTS, str.upper),
}
KINDS = tuple(_LAYOUTS)
"""Names of types that take a layout."""


def date_reader(kind: str, layout: str) -> Callable[[str], datetime]:
    """A function from texts of a layout to times; it raises ValueError.

    Errors: ValueError for a layout that names a part twice, or that has one which is unknown.
    """
    table, parts, spelling = _LAYOUTS[kind]
    pattern, position = "", 0
    for match in parts.finditer(layout):
        part = spelling(match.group())
        if part not in table and not part.startswith("."):
            raise ValueError(f"unknown part {match.group()!r} in the layout {layout!r}")
        pattern += re.escape(layout[position : match.start()])
        pattern += table.get(part) or _go_fraction(part)
        position = match.end()
    try:
        form = re.compile(pattern + re.escape(layout[position:]), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"the layout {layout!r} names a part twice") from error

    def read(text: str) -> datetime:
        match = form.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} has not the form {layout!r}")
        return _moment({name: value for name, value in match.groupdict().items() if value is not None})

    return read


def _go_fraction(part: str) -> str:
    """Return the pattern of a fraction: for `.000` exactly that many digits; for `.999` any number, or none without
    the point.
    """
    return rf"\.(?P<fraction>\d{{{len(part) - 1}}})" if part[1] == "0" else r"(?:\.(?P<fraction>\d+))?"


def _moment(parts: dict[str, str]) -> datetime:
    year = int(parts.get("year", "1970"))
    if "short_year" in parts:
        short = int(parts["short_year"])
        year = short + (1900 if short >= 69 else 2000)
    zone = timezone(_offset(parts["zone"])) if "zone" in parts else UTC
    fraction = parts.get("fraction", parts.get("more", "0"))
    second, microsecond = int(parts.get("second", "0")), int(fraction[:6].ljust(6, "0"))
    moment = datetime(
        year, _month(parts), int(parts.get("day", "1")), _hour(parts), int(parts.get("minute", "0")), second,
        microsecond, zone,
    )  # fmt: skip
    return moment.astimezone(UTC)


def _month(parts: dict[str, str]) -> int:
    if "month_name" in parts:
        return _MONTHS.index(parts["month_name"][:3].lower()) + 1
    return int(parts.get("month", "1"))


def _hour(parts: dict[str, str]) -> int:
    if "hour_12" not in parts:
        return int(parts.get("hour", "0"))
    hour = int(parts["hour_12"])
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour} is no hour of twelve")
    return hour % 12 + (12 if parts.get("half", "am").lower() == "pm" else 0)


def _offset(text: str) -> timedelta:
    if text in "Zz":
        return timedelta(0)
    size = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return -size if text[0] == "-" else size
