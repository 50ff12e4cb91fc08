"""The mapReduce command's fields, right and wrong; codes were taken from a real server."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.errors import CommandError
from docstore.js.request import MapReduceRequest, Output, OutputMode, parse_map_reduce

BODY = {"mapReduce": "posts", "map": bson.Code("m"), "reduce": "r", "out": {"inline": 1}}


def parse(**fields: Any) -> MapReduceRequest:
    body = {name: value for name, value in (BODY | fields).items() if value is not ...}
    return parse_map_reduce("test.posts", bson.encode(body))


def test_the_plain_form() -> None:
    request = parse(query={"a": 1}, sort={"a": 1}, limit=7, scope={"x": 1}, maxTimeMS=1500)
    assert (request.query, request.sort, request.limit) == (bson.encode({"a": 1}), bson.encode({"a": 1}), 7)
    assert (request.job.map[0], request.job.reduce[0], request.job.limits.seconds) == (13, 2, 1.5)


@pytest.mark.parametrize(
    ("out", "output", "reply"),
    [
        ({"inline": 1.0}, Output(OutputMode.INLINE), None),
        ("tags", Output(OutputMode.REPLACE, "test.tags"), "tags"),
        ({"replace": "tags"}, Output(OutputMode.REPLACE, "test.tags"), "tags"),
        ({"normal": "tags"}, Output(OutputMode.REPLACE, "test.tags"), "tags"),
        ({"merge": "tags", "db": "x"}, Output(OutputMode.MERGE, "x.tags"), {"db": "x", "collection": "tags"}),
        ({"reduce": "a.b", "sharded": True}, Output(OutputMode.REDUCE, "test.a.b", True), "a.b"),
    ],
)
def test_output_forms(out: object, output: Output, reply: object) -> None:
    request = parse(out=out)
    assert (request.output, request.reply_target()) == (output, reply)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"out": ...}, 40414),
        ({"map": ...}, 40414),
        ({"map": 5}, 2),
        ({"finalize": 5}, 2),
        ({"scope": 5}, 2),
        ({"query": 5}, 14),
        ({"sort": 5}, 14),
        ({"limit": "a"}, 14),
        ({"limit": 0}, 15958),
        ({"limit": -1}, 15958),
        ({"out": None}, 2),
        ({"out": 5}, 2),
        ({"out": ["x"]}, 2),
        ({"out": ""}, 73),
        ({"out": {}}, 2),
        ({"out": {"foo": "x"}}, 2),
        ({"out": {"replace": 5}}, 2),
        ({"out": {"replace": "a", "merge": "b"}}, 2),
        ({"out": {"inline": 0}}, 2),
        ({"out": {"inline": True}}, 2),
        ({"out": {"inline": 1, "db": "x"}}, 72),
        ({"out": "system.x"}, 17385),
    ],
)
def test_wrong_forms_are_refused(fields: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as error:
        parse(**fields)
    assert error.value.code == code


def test_null_counts_as_absent() -> None:
    request = parse(query=None, sort=None, scope=None, finalize=None)
    assert (request.query, request.sort, request.job.scope, request.job.finalize) == (None, None, None, None)
