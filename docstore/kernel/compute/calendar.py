"""The proleptic Gregorian calendar in integers: any 64-bit number of milliseconds has a date.

Days are counted from 1970-01-01. A 400-year cycle has 146,097 days, which is an integral number of weeks. Internally
years begin in March, so that the leap day is the last one. Weekdays are 0 for Sunday to 6 for Saturday.
"""

from __future__ import annotations

import cython

MILLISECONDS_A_DAY = 86_400_000


@cython.exceptval(check=False)
def floored(number: cython.longlong, divisor: cython.longlong) -> cython.longlong:
    """Return the quotient rounded down, compiled too."""
    if number >= 0:
        return number // divisor
    return -((-(number + 1)) // divisor) - 1


@cython.ccall
def day_and_rest(milliseconds: cython.longlong) -> tuple[int, int]:
    """Return (day, milliseconds since its midnight)."""
    day: cython.longlong = floored(milliseconds, 86_400_000)
    return day, milliseconds - day * 86_400_000


@cython.ccall
def civil(day: cython.longlong) -> tuple[int, int, int]:
    """Return (year, month, day of the month) of a day."""
    shifted: cython.longlong = day + 719_468
    cycle: cython.longlong = floored(shifted, 146_097)
    of_cycle: cython.longlong = shifted - cycle * 146_097
    year: cython.longlong = (of_cycle - of_cycle // 1_460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year: cython.longlong = of_cycle - (365 * year + year // 4 - year // 100)
    march_month: cython.longlong = (5 * of_year + 2) // 153
    month: cython.longlong = march_month + 3 if march_month < 10 else march_month - 9
    of_month: cython.longlong = of_year - (153 * march_month + 2) // 5 + 1
    year += cycle * 400
    return (year + 1 if month <= 2 else year), month, of_month


@cython.ccall
def day_of(year: cython.longlong, month: cython.longlong, of_month: cython.longlong) -> int:
    """Return the day of a date. Months and days beyond their bounds are carried into years and months."""
    carried: cython.longlong = floored(month - 1, 12)
    month -= carried * 12
    year += carried
    if month <= 2:
        year -= 1
        march_month: cython.longlong = month + 9
    else:
        march_month = month - 3
    cycle: cython.longlong = floored(year, 400)
    of_cycle: cython.longlong = year - cycle * 400
    days: cython.longlong = of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + (153 * march_month + 2) // 5
    return cycle * 146_097 + days + of_month - 719_469


@cython.ccall
def weekday(day: cython.longlong) -> int:
    """Return 0 for Sunday to 6 for Saturday."""
    return day + 4 - 7 * floored(day + 4, 7)


@cython.ccall
def day_of_year(day: cython.longlong) -> int:
    """Return the day of the year, 1 for the first of January."""
    year, _, _ = civil(day)
    return day - day_of(year, 1, 1) + 1


@cython.ccall
def iso_week(day: cython.longlong) -> tuple[int, int, int]:
    """Return (week-numbering year, week, weekday 1 for Monday to 7) by ISO 8601: a week belongs to its
    Thursday's year.
    """
    of_week: cython.longlong = weekday(day + 6) + 1
    thursday: cython.longlong = day - of_week + 4
    year, _, _ = civil(thursday)
    return year, (thursday - day_of(year, 1, 1)) // 7 + 1, of_week


def day_of_iso_week(year: int, week: int, of_week: int) -> int:
    """Return the day of an ISO week date; weeks and weekdays beyond their bounds are carried over."""
    first_thursday: cython.longlong = day_of(year, 1, 4)
    monday: cython.longlong = first_thursday - weekday(first_thursday + 6)
    return monday + (week - 1) * 7 + of_week - 1
