"""Time zones: Olson names by the system's tables (or those of the `tzdata` package), and offsets like `+05:30`.

An instant is milliseconds since 1970 in UTC; a local time is the same count on the zone's clocks. Beyond the years of
`datetime` the zone's rules continue: the calendar repeats every 400 years.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from docstore.aggregation.expressions.model import Evaluate, Expression, Scope, is_nullish
from docstore.aggregation.limits import MAX_ZONE_BUCKETS
from docstore.bson.walk import STRING, Value
from docstore.errors import CommandError
from docstore.query.value.values import text_of, type_name

_CYCLE = 146_097 * 86_400_000
_FIRST = -62_135_510_400_000
"""0001-01-02: before it every zone has its first offset."""
_LAST = 253_370_764_800_000
"""9999-01-01"""
_BUCKET = 900_000
_EPOCH = datetime(1970, 1, 1)
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)
_NAME = re.compile(r"(?!posix|right|localtime)[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", re.ASCII)


class Zone:
    """One time zone. `fixed`: its offset in seconds, if constant."""

    __slots__ = ("_buckets", "_rules", "fixed")

    def __init__(self, fixed: int | None, rules: tzinfo = UTC) -> None:
        self.fixed = fixed
        self._rules = rules
        self._buckets: dict[int, int] = {}

    def offset(self, instant: int) -> int:
        """Return the seconds by which the zone is ahead of UTC at an instant."""
        if self.fixed is not None:
            return self.fixed
        bucket = instant // _BUCKET
        seconds = self._buckets.get(bucket)
        if seconds is None:
            seconds = self._offset(bucket * _BUCKET)
            if seconds != self._offset(bucket * _BUCKET + _BUCKET - 1):
                return self._offset(instant)
            if len(self._buckets) >= MAX_ZONE_BUCKETS:
                self._buckets.clear()
            self._buckets[bucket] = seconds
        return seconds

    def _offset(self, instant: int) -> int:
        moment = (_EPOCH + timedelta(milliseconds=_equivalent_time(instant))).replace(tzinfo=UTC)
        return _seconds(moment.astimezone(self._rules).utcoffset())

    def local(self, instant: int) -> int:
        return instant + self.offset(instant) * 1000

    @property
    def clock(self) -> Callable[[int], int] | None:
        """Return `local`; None if it is the identity."""
        return None if self.fixed == 0 else self.local

    def is_summer(self, instant: int) -> bool:
        """True if daylight saving time applies at an instant."""
        if self.fixed is not None:
            return False
        moment = (_EPOCH + timedelta(milliseconds=_equivalent_time(instant))).replace(tzinfo=UTC)
        return bool(moment.astimezone(self._rules).dst())

    def instant(self, local: int, summer: bool = False) -> int:
        """Return the instant of a local time.

        An ambiguous time is the later one, or the earlier with `summer` (it was derived from a time in summer). A
        skipped time is converted with the offset before the clock change; with `summer`, west of Greenwich, with the
        offset after it.
        """
        if self.fixed is not None:
            return local - self.fixed * 1000
        moment = _EPOCH + timedelta(milliseconds=_equivalent_time(local))
        before = moment.replace(tzinfo=self._rules)
        after = before.replace(fold=1)
        first, second = _seconds(before.utcoffset()), _seconds(after.utcoffset())
        if first == second:
            return local - first * 1000
        if first < second:
            return local - (second if summer and first < 0 else first) * 1000
        return local - (first if summer or (first <= 0 and not before.dst()) else second) * 1000


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(seconds=1)


def _equivalent_time(milliseconds: int) -> int:
    """Return a time within the years of `datetime` that has the same rules."""
    if milliseconds < _FIRST:
        return _FIRST
    if milliseconds >= _LAST:
        return milliseconds - _CYCLE * ((milliseconds - _LAST) // _CYCLE + 1)
    return milliseconds


ZONE_UTC = Zone(0)


@lru_cache(maxsize=1024)
def zone_named(name: str) -> Zone:
    """Return the zone of a name or offset. Errors: 40485 if it does not exist."""
    if name in ("UTC", "GMT"):
        return ZONE_UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        seconds = int(hours) * 3600 + int(minutes or 0) * 60
        return Zone(-seconds if sign == "-" else seconds)
    try:
        if not _NAME.fullmatch(name):
            raise ZoneInfoNotFoundError(name)
        return Zone(None, ZoneInfo(name))
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise CommandError(40485, f'unrecognized time zone identifier: "{name}"') from None


def zone_of(value: Value, not_text: int = 40517) -> Zone:
    """Return the zone that a value names; `not_text`: the error code for a non-string."""
    if value[0] != STRING:
        raise CommandError(not_text, f"timezone must evaluate to a string, found {type_name(value)}")
    return zone_named(text_of(value))


def zone_from(evaluate: Evaluate | None, scope: Scope, not_text: int = 40517) -> Zone | None:
    """Return the zone of an optional parameter: UTC by default, None for null."""
    if evaluate is None:
        return ZONE_UTC
    value = evaluate(scope)
    return None if value is None or is_nullish(value) else zone_of(value, not_text)


def known_zone(timezone: Expression | None) -> Zone | None:
    """Return the zone of an optional parameter, UTC by default; None if it is not constant, or invalid."""
    if timezone is None:
        return ZONE_UTC
    named = timezone.constant
    if named is None or named[0] != STRING:
        return None
    try:
        return zone_named(text_of(named))
    except CommandError:
        return None
