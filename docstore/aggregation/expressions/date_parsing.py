"""Date parsing: by a format, or in the notations that the reference accepts without one.

Without a format a text is read in pieces: dates (ISO 8601 with days or weeks, with slashes, with month names), times
with or without AM and PM, zone offsets and abbreviations, weekday names. A leftover, repeated or invalid piece makes
the whole text invalid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.aggregation.expressions.time_zones import ZONE_UTC, Zone
from docstore.errors import Code, CommandError
from docstore.kernel.compute.calendar import day_of, day_of_iso_week, weekday

FROM_TEXT = frozenset("dGHLmMSuVYzZ%")
TO_TEXT = FROM_TEXT | frozenset("jUw")
"""The format letters for parsing, and those for formatting."""


def check_format(text: str, letters: frozenset[str]) -> None:
    """Check a format. Errors: 18536 for an unknown letter after a percent sign, 18535 for none."""
    position = text.find("%")
    while position >= 0:
        if position + 1 == len(text):
            raise CommandError(18535, "Unmatched '%' at end of format string")
        if text[position + 1] not in letters:
            raise CommandError(18536, f"Invalid format character '%{text[position + 1]}' in format string")
        position = text.find("%", position + 2)


def _invalid(text: str) -> CommandError:
    return CommandError(Code.ConversionFailure, f"Error parsing date string '{text}'")


@dataclass(slots=True)
class _DateParts:
    """The pieces parsed so far. `offset` is in seconds."""

    numbers: dict[str, int] = field(default_factory=dict)
    offset: int | None = None
    has_date: bool = False
    has_time: bool = False
    weekday: int | None = None
    instant: int | None = None

    def date(self, year: int, month: int, day: int) -> None:
        if self.has_date:
            raise ValueError("a second date")
        self.has_date = True
        self.numbers.update(Y=year, m=month, d=day)

    def time(self, hour: int, minute: int, second: int, millisecond: int) -> None:
        if self.has_time:
            raise ValueError("a second time")
        self.has_time = True
        self.numbers.update(H=hour, M=minute, S=second, L=millisecond)

    def zone(self, offset: int) -> None:
        if self.offset is not None:
            raise ValueError("a second zone")
        self.offset = offset

    def local(self) -> int:
        """Return the local time in milliseconds; ValueError if it is incomplete or invalid."""
        numbers = self.numbers
        hour, minute, second = (numbers.get(letter, 0) for letter in "HMS")
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError("no time of a day")
        if numbers.keys() & set("GVu"):
            if numbers.keys() & set("Ymd") or "G" not in numbers or "V" not in numbers:
                raise ValueError("not by weeks alone")
            week, of_week = numbers["V"], numbers.get("u", 1)
            if not (1 <= week <= 53 and 1 <= of_week <= 7):
                raise ValueError("no week")
            day = day_of_iso_week(numbers["G"], week, of_week)
        else:
            if not numbers.keys() >= set("Ymd"):
                raise ValueError("incomplete")
            day = _checked_day(numbers["Y"], numbers["m"], numbers["d"])
        if self.weekday is not None:
            day += (self.weekday - weekday(day)) % 7
        return ((day * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + numbers.get("L", 0)


def _checked_day(year: int, month: int, of_month: int) -> int:
    if not 1 <= month <= 12 or not 1 <= of_month <= day_of(year, month + 1, 1) - day_of(year, month, 1):
        raise ValueError("no day of the calendar")
    return day_of(year, month, of_month)


def instant_of_text(text: str, zone: Zone | None = None, layout: str | None = None) -> int:
    """Parse a text to an instant. Errors: ConversionFailure.

    With a `zone`, the text must not name another; None is UTC, and the text may name a zone. `layout`: a checked
    format.
    """
    try:
        parts = _read_freely(text) if layout is None else _read_by(layout, text)
        if parts.instant is not None:
            return parts.instant
        local = parts.local()
    except ValueError:
        raise _invalid(text) from None
    if parts.offset is None:
        return (zone or ZONE_UTC).instant(local)
    if zone is not None:
        raise CommandError(
            Code.ConversionFailure,
            "you cannot pass in a date/time string with a zone together with a timezone argument",
        )
    return local - parts.offset * 1000


_ZONE = r"(?:gmt|utc)?(?P<sign>[+-])(?P<zh>\d{1,2}):?(?P<zm>\d{2})?|(?P<zone>[a-z]{1,5})(?![a-z/_])"
_ABBREVIATIONS = {
    "utc": 0,
    "gmt": 0,
    "z": 0,
    "wet": 0,
    "west": 3600,
    "bst": 3600,
    "cet": 3600,
    "cest": 7200,
    "eet": 7200,
    "eest": 10800,
    "msk": 10800,
    "jst": 32400,
    "ast": -14400,
    "adt": -10800,
    "est": -18000,
    "edt": -14400,
    "cst": -21600,
    "cdt": -18000,
    "mst": -25200,
    "mdt": -21600,
    "pst": -28800,
    "pdt": -25200,
    "akst": -32400,
    "akdt": -28800,
    "hst": -36000,
}
_ABBREVIATIONS |= {letter: hour * 3600 for hour, letter in enumerate("abcdefghiklm", 1)}
_ABBREVIATIONS |= {letter: -hour * 3600 for hour, letter in enumerate("nopqrstuvwxy", 1)}


def _zone_offset(match: re.Match[str]) -> int:
    if match["sign"]:
        seconds = int(match["zh"]) * 3600 + int(match["zm"] or 0) * 60
        return -seconds if match["sign"] == "-" else seconds
    if match["zone"] not in _ABBREVIATIONS:
        raise ValueError("no zone")
    return _ABBREVIATIONS[match["zone"]]


_BY_LETTER: dict[str, tuple[re.Pattern[str], Callable[[str], int]]] = {
    letter: (re.compile(rf"\d{{1,{digits}}}", re.ASCII), int)
    for letter, digits in {"Y": 4, "G": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "V": 2, "u": 1}.items()
}
_BY_LETTER["L"] = (re.compile(r"\d{1,3}", re.ASCII), lambda digits: int(digits.ljust(3, "0")))
_ZONE_PATTERN = re.compile(_ZONE, re.ASCII)
_MINUTES = re.compile(r"[+-]\d{1,4}", re.ASCII)


def _read_by(layout: str, text: str) -> _DateParts:
    parts = _DateParts()
    at = 0
    letters = iter(layout)
    for letter in letters:
        if letter != "%" or (letter := next(letters)) == "%":
            if text[at : at + 1] != letter:
                raise ValueError("another text than in the format")
            at += 1
            continue
        if letter in "zZ":
            matched = (_ZONE_PATTERN if letter == "z" else _MINUTES).match(text.lower(), at)
            if matched is None:
                raise ValueError("no zone")
            parts.zone(_zone_offset(matched) if letter == "z" else int(matched.group()) * 60)
        else:
            pattern, read = _BY_LETTER[letter]
            matched = pattern.match(text, at)
            if matched is None:
                raise ValueError("no number")
            parts.numbers[letter] = read(matched.group())
        at = matched.end()
    if at != len(text):
        raise ValueError("trailing data")
    return parts


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def _read_named_month(parts: _DateParts, match: re.Match[str]) -> None:
    month = _MONTHS.index(match["month"][:3]) + 1
    parts.date(int(match["y"]), month, int(match["d"]) if match.groupdict().get("d") else 1)


def _read_date(parts: _DateParts, match: re.Match[str]) -> None:
    named = match.groupdict()
    year = int(match["y"])
    parts.date(-year if named.get("minus") else year, int(match["m"]), int(named.get("d") or 1))


def _read_week(parts: _DateParts, match: re.Match[str]) -> None:
    if parts.has_date:
        raise ValueError("a second date")
    parts.has_date = True
    parts.numbers.update(G=int(match["y"]), V=int(match["w"]), u=int(match["u"] or 1))


def _read_time(parts: _DateParts, match: re.Match[str]) -> None:
    named = match.groupdict()
    hour = int(match["H"])
    half = named.get("half")
    if half:
        if not 1 <= hour <= 12:
            raise ValueError("no hour of half a day")
        hour = hour % 12 + (12 if half == "p" else 0)
    fraction = (named.get("L") or "0").ljust(3, "0")[:3]
    parts.time(hour, int(named.get("M") or 0), int(named.get("S") or 0), int(fraction))


def _read_zone(parts: _DateParts, match: re.Match[str]) -> None:
    parts.zone(_zone_offset(match))


def _read_weekday(parts: _DateParts, match: re.Match[str]) -> None:
    parts.weekday = _WEEKDAYS.index(match["day"][:3])


def _read_instant(parts: _DateParts, match: re.Match[str]) -> None:
    parts.instant = int(match["instant"]) * 1000


_PIECES: tuple[tuple[re.Pattern[str], Callable[[_DateParts, re.Match[str]], None] | None], ...] = tuple(
    (re.compile(pattern, re.ASCII), read)
    for pattern, read in (
        (r"(?P<minus>-)?(?P<y>\d{4})-(?P<m>0?[1-9]|1[0-2])-(?P<d>\d{1,2})(?!\d)", _read_date),
        (r"(?P<y>\d{4})/(?P<m>0?[1-9]|1[0-2])/(?P<d>\d{1,2})(?!\d)", _read_date),
        (r"(?P<m>0?[1-9]|1[0-2])/(?P<d>\d{1,2})/(?P<y>\d{4})(?!\d)", _read_date),
        (r"(?P<d>\d{1,2})[-.\t](?P<m>0?[1-9]|1[0-2])[-.](?P<y>\d{4})(?!\d)", _read_date),
        (r"(?P<y>\d{4})(?P<m>0[1-9]|1[0-2])(?P<d>\d{2})(?!\d)", _read_date),
        (r"(?P<y>\d{4})-(?P<m>0?[1-9]|1[0-2])(?![\d-])", _read_date),
        (r"(?P<y>\d{4})-?w(?P<w>\d{2})(?:-?(?P<u>[0-7]))?(?!\d)", _read_week),
        (rf"(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[ \t.-]*{_MONTH}[ \t.,-]*(?P<y>\d{{4}})(?!\d)", _read_named_month),
        (rf"{_MONTH}[ \t.-]*(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[ \t.,]+(?P<y>\d{{4}})(?![\d:])", _read_named_month),
        (rf"(?P<y>\d{{4}})[ \t.-]*{_MONTH}[ \t.-]*(?P<d>\d{{1,2}})(?!\d)", _read_named_month),
        (rf"{_MONTH}[ \t.-]*(?P<y>\d{{4}})(?!\d)", _read_named_month),
        (
            r"t?(?P<H>\d{1,2})(?::(?P<M>[0-5]?\d)(?::(?P<S>[0-5]?\d|60)(?:[.:](?P<L>\d*))?)?)?[ \t]*"
            r"(?P<half>[ap])\.?m\.?(?![a-z])",
            _read_time,
        ),
        (
            r"t?(?P<H>[01]?\d|2[0-4])[:.](?P<M>[0-5]?\d)(?:[:.](?P<S>[0-5]?\d|60)(?:[.:](?P<L>\d+)|\.)?)?(?!\d)",
            _read_time,
        ),
        (r"t(?P<H>[01]\d|2[0-4]):?(?P<M>[0-5]\d):?(?P<S>[0-5]\d|60)(?:[.,](?P<L>\d+))?", _read_time),
        (r"t(?P<H>[01]\d|2[0-4])(?P<M>[0-5]\d)?(?!\d)", _read_time),
        (r"(?P<day>sun|mon|tue|wed|thu|fri|sat)(?:s|nes|rs|ur)?(?:day)?(?![a-z])", _read_weekday),
        (r"@(?P<instant>-?\d+)", _read_instant),
        (_ZONE, _read_zone),
        (r"[ \t.,;]+", None),
    )
)


def _read_freely(text: str) -> _DateParts:
    lowered = text.strip().lower()
    if not lowered:
        raise ValueError("empty")
    parts = _DateParts()
    at = 0
    while at < len(lowered):
        for pattern, read in _PIECES:
            matched = pattern.match(lowered, at)
            if matched is not None:
                if read is not None:
                    read(parts, matched)
                at = matched.end()
                break
        else:
            raise ValueError("what is no part of a date")
    return parts
