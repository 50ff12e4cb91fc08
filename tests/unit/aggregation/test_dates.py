"""Dates and time zones. Expected values are the real server's."""

from __future__ import annotations

from datetime import date as calendar_date
from random import Random
from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.bson.convert import to_python
from docstore.kernel.compute import calendar
from tests.unit.aggregation.test_expressions import code_of, result

SEPTEMBER = DatetimeMS(1600000000123)
FIRST, LAST = DatetimeMS(-(2**63)), DatetimeMS(2**63 - 1)


def parts(**given: Any) -> dict[str, Any]:
    return {"$dateFromParts": given}


def added(start: int, unit: str, amount: int, **more: Any) -> dict[str, Any]:
    return {"$dateAdd": {"startDate": DatetimeMS(start), "unit": unit, "amount": amount, **more}}


def truncated(start: int, unit: str, **more: Any) -> dict[str, Any]:
    return {"$dateTrunc": {"date": DatetimeMS(start), "unit": unit, **more}}


def written(start: int, layout: str, **more: Any) -> dict[str, Any]:
    return {"$dateToString": {"date": DatetimeMS(start), "format": layout, **more}}


def read(text: str, **more: Any) -> dict[str, Any]:
    return {"$dateFromString": {"dateString": text, **more}}


def test_the_calendar_agrees_with_the_standard_library() -> None:
    rnd = Random(1)
    for _ in range(2000):
        ordinal = rnd.randint(1, 3_652_059)
        expected = calendar_date.fromordinal(ordinal)
        day = ordinal - 719_163
        assert calendar.civil(day) == (expected.year, expected.month, expected.day)
        assert calendar.day_of(expected.year, expected.month, expected.day) == day
        assert calendar.iso_week(day) == tuple(expected.isocalendar())
        assert calendar.day_of_iso_week(*calendar.iso_week(day)) == day


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"$year": LAST}, 292278994),
        ({"$dateToParts": {"date": FIRST}}, [-292275055, 5, 16, 16, 47, 4, 192]),
        ({"$week": FIRST}, 20),
        ({"$isoWeekYear": DatetimeMS(-1)}, Int64(1970)),
        ({"$hour": {"date": SEPTEMBER, "timezone": "-05:30"}}, 6),
        ({"$hour": {"date": SEPTEMBER, "timezone": "EST5EDT"}}, 8),
        ({"$year": {"date": None, "timezone": "bogus"}}, None),
        (written(-3000000000000, "%Y-%m-%d %H:%M:%S %z", timezone="America/New_York"), "1874-12-07 13:43:58 -0456"),
        (written(2**62, "%m-%d %H:%M:%S %z", timezone="Europe/Berlin"), "04-24 17:36:27 +0200"),
        (
            written(1600000000123, "%j %u %U %V %G %w %z %Z %% %H %M %S %L %m %d %Y", timezone="-03:07"),
            "257 7 37 37 2020 1 -0307 -187 % 09 19 40 123 09 13 2020",
        ),
        (parts(year=2020, month=0, day=0, hour=-1, minute=-1, second=-1, millisecond=-1), DatetimeMS(1575068338999)),
        (parts(isoWeekYear=2020, isoWeek=53, isoDayOfWeek=7), DatetimeMS(1609632000000)),
        (parts(year=2021, month=3, day=28, hour=2, minute=30, timezone="Europe/Berlin"), DatetimeMS(1616895000000)),
        (parts(year=2021, month=10, day=31, hour=2, minute=30, timezone="Europe/Berlin"), DatetimeMS(1635643800000)),
        (added(1580428800000, "month", 1), DatetimeMS(1582934400000)),
        (added(1635553800000, "day", 1, timezone="Europe/Berlin"), DatetimeMS(1635640200000)),
        (added(1615786200000, "day", -1, timezone="America/New_York"), DatetimeMS(1615703400000)),
        (added(-87140769227, "day", -2), DatetimeMS(-87313570227)),
        (truncated(1600000000123, "week", binSize=3), DatetimeMS(1599955200000)),
        (truncated(-10000000000000, "month", binSize=7), DatetimeMS(-10006156800000)),
        (truncated(1620000000000, "hour", binSize=5, timezone="Europe/Berlin"), DatetimeMS(1619989200000)),
        ({"$dateDiff": {"startDate": FIRST, "endDate": LAST, "unit": "week"}}, Int64(30500568905)),
        (read("2020-03-04 05:06:07 EST"), DatetimeMS(1583316367000)),
        (read("Wed, 04 Mar 2020 05:06:07 GMT"), DatetimeMS(1583298367000)),
        (read("July 4th, 2017"), DatetimeMS(1499126400000)),
        (read("2020-W10-3"), DatetimeMS(1583280000000)),
        (read("04/03/2020", format="%d/%m/%Y"), DatetimeMS(1583280000000)),
        (read("2020-03-04", timezone="+01:00"), DatetimeMS(1583276400000)),
        (read("nope", onError="e"), "e"),
        ({"$tsSecond": Timestamp(4294967295, 5)}, Int64(4294967295)),
    ],
)
def test_values_are_those_of_the_real_server(expression: Any, expected: Any) -> None:
    found = to_python(result(expression))
    assert (list(found.values()) if isinstance(found, dict) else found) == expected
    assert isinstance(found, dict) or type(found) is type(expected)


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"$year": "x"}, 16006),
        ({"$year": {"date": SEPTEMBER, "timezone": "Bogus/Zone"}}, 40485),
        ({"$year": {"date": SEPTEMBER, "timezone": "../UTC"}}, 40485),
        ({"$year": {"date": SEPTEMBER, "timezone": 5}}, 40533),
        (written(253402300800000, "%Y"), 18537),
        (written(0, "%Q"), 18536),
        (written(0, "%"), 18535),
        (parts(year=2020, month=32768), 31034),
        (parts(year=2020, second=2**62), 159),
        (parts(year=2020, isoWeek=1), 40489),
        (added(0, "day", 2**40), 5976500),
        (added(1600000000123, "year", 292277024), 5166406),
        (added(0, "days", 1), 9),
        (truncated(0, "day", binSize=0), 5439018),
        (read("2020-02-30"), 241),
        (read("2020-03-04Z", timezone="UTC"), 241),
    ],
)
def test_refusals_have_the_codes_of_the_real_server(expression: Any, code: int) -> None:
    assert code_of(expression) == code
