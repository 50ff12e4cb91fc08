"""What people type in the page and how values are shown there: its modules, run as the browser runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from py_mini_racer import JSEvalException, MiniRacer

PAGE = Path(__file__).resolve().parents[3] / "docstore" / "console" / "page"


@pytest.fixture(scope="module")
def engine() -> MiniRacer:
    engine = MiniRacer()
    for name in ("values.js", "syntax.js"):
        engine.eval(re.sub(r"^export ", "", (PAGE / name).read_text(), flags=re.MULTILINE))
    return engine


def parsed(engine: MiniRacer, text: str) -> Any:
    found: str = engine.eval(f"JSON.stringify(parse({json.dumps(text)}))")
    return json_util.loads(found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}), ("{ a: 1, 'b.c': \"x\", $gt: -2.5, }", {"a": 1, "b.c": "x", "$gt": -2.5}),
        ("[ 1, [ ], null, true ]", [1, [], None, True]), ("{ a: 3000000000 }", {"a": Int64(3000000000)}),
        ("{ a: 1.0 }", {"a": 1.0}), ("{ a: 99999999999999999999 }", {"a": 1e20}), ("{a:-0}", {"a": -0.0}),
        ('ObjectId("64b7f0c2a1b2c3d4e5f60718")', ObjectId("64b7f0c2a1b2c3d4e5f60718")),
        ('ISODate("2026-11-26T05:00:00.250Z")', json_util.loads('{"$date": "2026-11-26T05:00:00.250Z"}')),
        ('NumberLong("9007199254740993")', Int64(9007199254740993)), ("NumberInt(5)", 5),
        ('NumberDecimal("0.10")', Decimal128("0.10")), ("Timestamp(5, 6)", Timestamp(5, 6)), ("MinKey", MinKey()),
        ('BinData(0, "AQI=")', b"\1\2"), ("/a\\/b/im", Regex("a/b", "im")), ("new Date(1000)", "DATE"),
        (r"'it\'s \"so\" \u00e9 \x41\n'", 'it\'s "so" é A\n'), ("// why\n{ a: /* b */ 1 }", {"a": 1}),
        ('{ __proto__: 1, "": 2 }', {"__proto__": 1, "": 2}),
    ],
)  # fmt: skip
def test_what_is_typed_as_in_the_shell_becomes_the_value(engine: MiniRacer, text: str, value: Any) -> None:
    expected = json_util.loads('{"$date": {"$numberLong": "1000"}}') if value == "DATE" else value
    found = parsed(engine, text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "text",
    ["", "{", "{a}", "{a: b}", "[1", "'x", '"x', "/x", "{} {}", "alert(1)", "{a: alert}", "constructor(1)", "toString",
     "{a: 1 b: 2}", r"'\u12'", "ISODate('never')", "[" * 200, "new", "window.open()", "(() => 1)()", "1 + 1"],
)  # fmt: skip
def test_what_is_no_value_is_refused_and_nothing_is_run(engine: MiniRacer, text: str) -> None:
    with pytest.raises(JSEvalException, match=r"SyntaxProblem|Error: "):
        parsed(engine, text)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, Int64(2), 2.0, 2.5, -0.0, float("inf"), None, True, "x\n\"'</script>"]}, {"a": {"b": {"c": []}}},
        {"_id": ObjectId("64b7f0c2a1b2c3d4e5f60718"), "at": DatetimeMS(1)}, {"max": MaxKey(), "min": MinKey()},
        {"decimal": Decimal128("1E+3"), "ts": Timestamp(4294967295, 1)}, {"bin": Binary(b"\0\xff", 128)},
        {"re": Regex("a/b\\.[/]c", "ix")},
        {"long name with spaces": {"$gt": 1, "a.b": 2, "1st": 3, "__proto__": {"x": 1}}},
    ],
)  # fmt: skip
def test_what_is_shown_can_be_typed_again(engine: MiniRacer, value: Any) -> None:
    canonical = json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS)
    for indent in ("undefined", "''"):
        text: str = engine.eval(f"text(JSON.parse({json.dumps(canonical)}), {indent})")
        again = engine.eval(f"JSON.stringify(parse({json.dumps(text)}))")
        read = json_util.loads(again, json_options=json_util.JSONOptions(datetime_conversion=3))
        assert json_util.dumps(read, json_options=json_util.CANONICAL_JSON_OPTIONS) == canonical, text
