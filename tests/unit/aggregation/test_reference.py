"""Random expressions against a real server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pymongo
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from pymongo.database import Database
from pymongo.errors import OperationFailure

from docstore.bson.convert import to_python
from docstore.errors import CommandError
from tests.harness.reference import reference_server
from tests.unit.aggregation.test_expressions import result

pytestmark = pytest.mark.reference

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"]
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Africa/Casablanca",
    "Pacific/Chatham",
    "+05:30",
    "-0330",
]
PARTS = ["$year", "$month", "$dayOfMonth", "$hour", "$minute", "$dayOfYear", "$week", "$isoWeek", "$isoWeekYear"]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[Any]]:
    with reference_server(tmp_path_factory.mktemp("reference")) as port:
        client: pymongo.MongoClient[Any] = pymongo.MongoClient("127.0.0.1", port)
        with client:
            yield client["expressions"]


def asked(database: Database[Any], expression: Any) -> Any:
    """The reference's value, or its error code."""
    pipeline = [{"$documents": [{}]}, {"$project": {"r": expression}}]
    try:
        reply = database.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}}, codec_options=OPTIONS)
    except OperationFailure as error:
        return f"error {error.code}"
    return reply["cursor"]["firstBatch"][0].get("r", ...)


def calculated(expression: Any) -> Any:
    try:
        found = result(expression)
        return ... if found is None else to_python(found)
    except CommandError as error:
        return f"error {error.code}"


def agrees(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-12) or (math.isnan(found) and math.isnan(expected))
    return bool(found == expected) and type(found) is type(expected)


def instant(rnd: Random) -> DatetimeMS:
    return DatetimeMS(
        rnd.choice([rnd.randint(0, 2 * 10**12), rnd.randint(-(10**13), 10**14), rnd.randint(-(2**60), 2**60)])
    )


def random_date_expression(rnd: Random) -> dict[str, Any]:
    zone = {"timezone": rnd.choice(ZONES)} if rnd.random() < 0.8 else {}
    unit = rnd.choice(UNITS)
    kind = rnd.randint(0, 4)
    if kind == 0:
        return {rnd.choice(PARTS): {"date": instant(rnd), **zone}}
    if kind == 1:
        layout = "%m-%d %H:%M:%S.%L %j %u %U %V %w %z %Z"
        return {"$dateToString": {"date": instant(rnd), "format": layout, **zone}}
    if kind == 2:
        return {"$dateAdd": {"startDate": instant(rnd), "unit": unit, "amount": Int64(rnd.randint(-99, 99)), **zone}}
    if kind == 3:
        return {"$dateDiff": {"startDate": instant(rnd), "endDate": instant(rnd), "unit": unit, **zone}}
    return {"$dateTrunc": {"date": instant(rnd), "unit": unit, "binSize": rnd.choice([1, 2, 7, 45]), **zone}}


def test_random_dates_agree(database: Database[Any]) -> None:
    rnd = Random(3)
    for _ in range(500):
        expression = random_date_expression(rnd)
        found, expected = calculated(expression), asked(database, expression)
        assert agrees(found, expected), expression
