"""Parts and texts of dates, their bins, distances and sums; in UTC, or by the clocks of a time zone.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_CACHED_BINS, MAX_UNIT_MILLISECONDS, MAX_UNIT_MONTHS

if not cython.compiled:
    from docstore.bson.walk import DATE, INT32, INT64, STRING, int32_at, int64_at
    from docstore.kernel.compute.calendar import civil, day_and_rest, day_of, day_of_year, floored, iso_week, weekday
    from docstore.kernel.compute.expressions import put_integer, put_long


class OfDate(Calculation):
    """A calculation on one date. `local` converts an instant to a time zone's local time, in milliseconds;
    None: UTC.
    """

    _local: Callable[[int], int] | None

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        local: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__(operands, otherwise)
        self._local = local

    def _local_time(self) -> cython.longlong:
        """Return the local time of the date that has been located."""
        instant: cython.longlong = int64_at(self._first.raw, self._first.at)
        if self._local is None:
            return instant
        local_time: cython.longlong = self._local(instant)
        return local_time


class DatePart(OfDate):
    """A part of a date, by its letter as in formats (`w`: the day of the week from 1 for Sunday)."""

    _letter: cython.int

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        letter: str,
        local: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__(operands, otherwise, local)
        self._letter = ord(letter)

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        self._locate(0, document, self._first)
        if self._first.code != DATE or _is_far(int64_at(self._first.raw, self._first.at)):
            return False
        put_integer(result, INT64 if self._letter == 71 else INT32, _date_part(self._letter, self._local_time()))
        return True


def _date_part(letter: cython.int, milliseconds: cython.longlong) -> cython.longlong:
    day, time_of_day = day_and_rest(milliseconds)
    if letter == 89:  # Y
        return civil(day)[0]
    if letter == 109:  # m
        return civil(day)[1]
    if letter == 100:  # d
        return civil(day)[2]
    if letter == 72:  # H
        return time_of_day // 3_600_000
    if letter == 77:  # M
        return time_of_day // 60_000 % 60
    if letter == 83:  # S
        return time_of_day // 1000 % 60
    if letter == 76:  # L
        return time_of_day % 1000
    if letter == 106:  # j
        return day_of_year(day)
    if letter == 71:  # G
        return iso_week(day)[0]
    if letter == 86:  # V
        return iso_week(day)[1]
    if letter == 117:  # u
        return iso_week(day)[2]
    if letter == 85:  # U
        return (day_of_year(day) + 6 - weekday(day)) // 7
    return weekday(day) + 1


DATE_PARTS = "YmdHMSLjwGVuU"
"""The letters of `DatePart` and `DateText`."""


class DateText(OfDate):
    """`$dateToString` of a date, from letters of `DATE_PARTS` and literal texts."""

    _pieces: list[bytes]
    _letters: list[int]
    _out: KeyWriter

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        pieces: Sequence[tuple[str | None, bytes]],
        local: Callable[[int], int] | None = None,
    ) -> None:
        """`pieces` are (letter, "") or (None, text)."""
        super().__init__(operands, otherwise, local)
        self._letters = [0 if letter is None else ord(letter) for letter, _ in pieces]
        self._pieces = [text for _, text in pieces]
        self._out = KeyWriter()

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        letter: cython.int
        number: cython.longlong
        milliseconds: cython.longlong
        out: KeyWriter = self._out
        self._locate(0, document, self._first)
        if self._first.code != DATE or _is_far(int64_at(self._first.raw, self._first.at)):
            return False
        milliseconds = self._local_time()
        out.clear()
        out.put_little(0, 4)
        for position in range(len(self._letters)):
            letter = self._letters[position]
            if letter == 0:
                out.put_bytes(self._pieces[position])
                continue
            number = _date_part(letter, milliseconds)
            if not 0 <= number <= 9999:
                return False
            if letter in (89, 71):
                out.put(48 + number // 1000)
            if letter in (89, 71, 76, 106):
                out.put(48 + number // 100 % 10)
            if letter not in (119, 117):
                out.put(48 + number // 10 % 10)
            out.put(48 + number % 10)
        out.put(0)
        out.set_little(0, out.size - 4, 4)
        result.put(STRING, out.contents())
        return True


@cython.exceptval(check=False)
def _is_far(milliseconds: cython.longlong) -> cython.bint:
    """True if sums with the number may overflow 64 bits."""
    return not -2_305_843_009_213_693_952 < milliseconds < 2_305_843_009_213_693_952


def _month_of(milliseconds: cython.longlong) -> cython.longlong:
    """Return the month of a date, counted from the year 0."""
    day, _ = day_and_rest(milliseconds)
    year, month, _ = civil(day)
    return year * 12 + month - 1


class OfUnit(Calculation):
    """A calculation with a unit: a number of `months`, or a `length` in milliseconds if `months` is 0.

    Its bins are counted from `begin`, in months from the year 0 or in milliseconds.
    """

    _months: cython.longlong
    _length: cython.longlong
    _begin: cython.longlong

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        *,
        months: int = 0,
        length: int = 0,
        begin: int = 0,
    ) -> None:
        """Errors: ValueError for a unit too long to calculate with."""
        if months > MAX_UNIT_MONTHS or length > MAX_UNIT_MILLISECONDS:
            raise ValueError("no such unit is calculated with")
        super().__init__(operands, otherwise)
        self._months = months
        self._length = length
        self._begin = begin


class DateBin(OfUnit):
    """`$dateTrunc`: the beginning of the bin that a date is in.

    `clocks`, for units of a day or more, are two functions: the local time of an instant, and the instant of a local
    time.
    """

    _clocks: tuple[Callable[[int], int], Callable[[int], int]] | None
    _begins: dict[int, int]
    """The cached instants of the bins' beginnings, by local time."""

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        *,
        months: int = 0,
        length: int = 0,
        begin: int = 0,
        clocks: tuple[Callable[[int], int], Callable[[int], int]] | None = None,
    ) -> None:
        super().__init__(operands, otherwise, months=months, length=length, begin=begin)
        self._clocks = clocks
        self._begins = {}

    def _instant(self, local_time: cython.longlong) -> cython.longlong:
        """Return the instant at which a bin begins."""
        instant: cython.longlong
        begin: object
        if self._clocks is None:
            return local_time
        begin = self._begins.get(local_time)
        if begin is None:
            if len(self._begins) >= MAX_CACHED_BINS:
                self._begins.clear()
            begin = self._clocks[1](local_time)
            self._begins[local_time] = begin
        instant = begin
        return instant

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        instant: cython.longlong
        count: cython.longlong
        self._locate(0, document, self._first)
        if self._first.code != DATE:
            return False
        instant = int64_at(self._first.raw, self._first.at)
        if _is_far(instant):
            return False
        if self._clocks is not None:
            instant = self._clocks[0](instant)
        if self._months:
            count = floored(_month_of(instant) - self._begin, self._months)
            instant = day_of(0, self._begin + count * self._months + 1, 1)
            instant *= 86_400_000
        else:
            instant = self._begin + floored(instant - self._begin, self._length) * self._length
        put_long(result, DATE, self._instant(instant))
        return True


class DateDistance(OfUnit):
    """`$dateDiff`: the number of bins' beginnings between two dates."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        start: cython.longlong
        end: cython.longlong
        self._locate(0, document, self._first)
        if self._first.code != DATE:
            return False
        self._locate(1, document, self._second)
        if self._second.code != DATE:
            return False
        start = int64_at(self._first.raw, self._first.at)
        end = int64_at(self._second.raw, self._second.at)
        if _is_far(start) or _is_far(end):
            return False
        if self._months:
            start, end = floored(_month_of(start), self._months), floored(_month_of(end), self._months)
        else:
            start, end = floored(start - self._begin, self._length), floored(end - self._begin, self._length)
        put_long(result, INT64, end - start)
        return True


class DateSum(OfUnit):
    """`$dateAdd`, and `$dateSubtract` by a negative unit: a date, not before 1970, plus a number of units."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        instant: cython.longlong
        amount: cython.longlong
        month: cython.longlong
        first: cython.longlong
        length: cython.longlong
        most: cython.longlong
        self._locate(0, document, self._first)
        if self._first.code != DATE:
            return False
        self._locate(1, document, self._second)
        if self._second.code not in (INT32, INT64):
            return False
        instant = int64_at(self._first.raw, self._first.at)
        if self._second.code == INT32:
            amount = int32_at(self._second.raw, self._second.at)
        else:
            amount = int64_at(self._second.raw, self._second.at)
        most = 1_000_000 if self._months else 2_147_483_648
        if instant < 0 or _is_far(instant) or not -most < amount < most:
            return False
        if self._months:
            day, time_of_day = day_and_rest(instant)
            year, number, of_month = civil(day)
            month = year * 12 + number - 1 + amount * self._months
            first = day_of(0, month + 1, 1)
            length = day_of(0, month + 2, 1) - first
            instant = (first + (of_month if of_month < length else length) - 1) * 86_400_000 + time_of_day
        else:
            instant += amount * self._length
        put_long(result, DATE, instant)
        return True
