"""Dates, times and durations between their written forms and numbers; UTC where no zone is given.

* timestamp: milliseconds since 1970;
* date: days since 1970, negative before;
* time: nanoseconds of the day;
* duration: (months, days, nanoseconds), all of one sign.
"""

from __future__ import annotations

import re
from datetime import date

Duration = tuple[int, int, int]

_EPOCH = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_DAY_NANOS = 86_400 * 10**9
_MICRO_SIGN = "\u00b5s"
_TIMESTAMP = re.compile(
    r"(?P<year>[+-]?\d{4,9})-(?P<month>\d\d?)-(?P<day>\d\d?)"
    r"(?:[T ](?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE,
)
_DATE = re.compile(r"([+-]?\d{4,9})-(\d\d?)-(\d\d?)")
_TIME = re.compile(r"(\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d{1,9}))?)?")
_UNITS = {
    "y": (12, 0, 0), "mo": (1, 0, 0), "w": (0, 7, 0), "d": (0, 1, 0),
    "h": (0, 0, 3600 * 10**9), "m": (0, 0, 60 * 10**9), "s": (0, 0, 10**9),
    "ms": (0, 0, 10**6), "us": (0, 0, 10**3), _MICRO_SIGN: (0, 0, 10**3), "ns": (0, 0, 1),
}  # fmt: skip
_PART = re.compile(rf"(\d+)(mo|ms|us|{_MICRO_SIGN}|ns|y|w|d|h|m|s)", re.IGNORECASE)
_ISO = re.compile(r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_ISO_UNITS = ("y", "mo", "w", "d", "h", "m", "s")


def parse_timestamp(text: str) -> int:
    """Milliseconds. ValueError."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    days = _days(match["year"], match["month"], match["day"])
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    millis = int((match["fraction"] or "").ljust(3, "0")[:3])
    return days * _DAY_MS + ((hour * 60 + minute - _zone(match["zone"])) * 60 + second) * 1000 + millis


def _zone(text: str | None) -> int:
    """Minutes east of Greenwich."""
    if not text or text[0] not in "+-":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if text[0] == "-" else minutes


def _days(year: str, month: str, day: str) -> int:
    """Days since 1970 in the Gregorian calendar extended both ways. ValueError."""
    cycles, year_of_cycle = divmod(int(year), 400)
    return date(year_of_cycle + 400, int(month), int(day)).toordinal() - _EPOCH + (cycles - 1) * 146_097


def format_timestamp(millis: int) -> str:
    days, millis_of_day = divmod(millis, _DAY_MS)
    seconds, fraction = divmod(millis_of_day, 1000)
    return f"{format_date(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}Z"


def parse_date(text: str) -> int:
    """Days. ValueError."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return _days(*match.groups())


def format_date(days: int) -> str:
    cycles, day_of_cycle = divmod(days + _EPOCH - date(400, 1, 1).toordinal(), 146_097)
    date_in_cycle = date.fromordinal(day_of_cycle + date(400, 1, 1).toordinal())
    year = date_in_cycle.year + 400 * cycles
    written = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{written}-{date_in_cycle.month:02}-{date_in_cycle.day:02}"


def parse_time(text: str) -> int:
    """Nanoseconds of the day. ValueError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((match[4] or "").ljust(9, "0"))


def check_time(nanos: int) -> int:
    """The number itself. ValueError when no day has it."""
    if not 0 <= nanos < _DAY_NANOS:
        raise ValueError(nanos)
    return nanos


def format_time(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 10**9)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:09}"


def parse_duration(text: str) -> Duration:
    """Parse `1y2mo3w4d5h6m7s8ms9us10ns` or `P1Y2M3DT4H5M6S`. ValueError."""
    sign = -1 if text.startswith("-") else 1
    body = text[1:] if sign < 0 else text
    iso = _ISO.fullmatch(body)
    if iso is not None and body not in ("P", "PT"):
        parts = [(int(number), unit) for number, unit in zip(iso.groups(), _ISO_UNITS, strict=True) if number]
    else:
        parts = [(int(match[1]), match[2].lower()) for match in _PART.finditer(body)]
        if not parts or "".join(f"{match[0]}" for match in _PART.finditer(body)) != body:
            raise ValueError(text)
    months, days, nanos = (sum(number * _UNITS[unit][position] for number, unit in parts) for position in range(3))
    if months >= 1 << 31 or days >= 1 << 31 or nanos >= 1 << 63:
        raise ValueError(text)
    return sign * months, sign * days, sign * nanos


def format_duration(duration: Duration) -> str:
    sign = "-" if any(part < 0 for part in duration) else ""
    months, days, nanos = (abs(part) for part in duration)
    parts = [(months // 12, "y"), (months % 12, "mo"), (days, "d")]
    for unit, size in (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)):
        count, nanos = divmod(nanos, size)
        parts.append((count, unit))
    return sign + "".join(f"{count}{unit}" for count, unit in parts if count)
