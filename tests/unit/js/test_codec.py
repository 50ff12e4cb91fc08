"""Documents survive the trip through JavaScript."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.int64 import Int64
from hypothesis import given, settings

from tests.unit.js.conftest import Runtime
from tests.unit.js.strategies import documents

OPTIONS: CodecOptions[Any] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


@settings(max_examples=150, deadline=None)
@given(document=documents)
def test_every_type_comes_back_byte_for_byte(document: dict[str, Any]) -> None:
    raw = bson.encode(document, codec_options=OPTIONS)
    runtime = shared()
    runtime.load(raw)
    assert runtime.encoded("decode()") == raw


_runtimes: list[Runtime] = []


def shared() -> Runtime:
    """One isolate for all examples: its caches must not mix documents up."""
    if not _runtimes:
        _runtimes.append(Runtime())
    return _runtimes[0]


@pytest.fixture(scope="module", autouse=True)
def _close_shared() -> Any:
    yield
    while _runtimes:
        _runtimes.pop().isolate.close()


def test_a_field_that_was_int32_stays_one_after_arithmetic(runtime: Runtime) -> None:
    runtime.load(bson.encode({"i": 5, "nested": {"n": 1}}))
    raw = runtime.encoded("(d => { d.i = d.i + 1; d.nested.n += 2; return d })(decode())")
    assert raw == bson.encode({"i": 6, "nested": {"n": 3}})


def test_a_field_that_outgrew_int32_becomes_a_double(runtime: Runtime) -> None:
    runtime.load(bson.encode({"i": 5, "j": 5}))
    assert runtime.encoded("(d => { d.i = 1.5; d.j = 5e10; return d })(decode())") == bson.encode({"i": 1.5, "j": 5e10})


def test_new_numbers_are_doubles_and_wrapped_ones_keep_their_type(runtime: Runtime) -> None:
    raw = runtime.encoded("{ a: 1, b: NumberInt(2), c: NumberLong(3) }")
    assert raw == bson.encode({"a": 1.0, "b": 2, "c": Int64(3)})


def test_undefined_is_null_and_a_function_is_code(runtime: Runtime) -> None:
    raw = runtime.encoded("{ u: undefined, f: function () { return 1 } }")
    assert bson.decode(raw) == {"u": None, "f": bson.code.Code("function () { return 1 }")}


def test_reading_code_does_not_run_it(runtime: Runtime) -> None:
    runtime.load(bson.encode({"f": bson.code.Code("(function(){ globalThis.ran = true })()")}))
    assert runtime.value("[typeof decode().f, typeof ran]") == ["function", "undefined"]


def test_stored_code_can_be_called(runtime: Runtime) -> None:
    runtime.load(bson.encode({"f": bson.code.Code("function(a, b){ return a + b }")}))
    assert runtime.value("decode().f(2, 3)") == 5


def test_a_field_named_proto_is_a_field(runtime: Runtime) -> None:
    raw = bson.encode({"__proto__": {"x": 1}})
    runtime.load(raw)
    assert runtime.value("[decode().x === undefined, Object.keys(decode())]") == [True, ["__proto__"]]
    assert runtime.encoded("decode()") == raw


def test_a_value_that_contains_itself_is_refused(runtime: Runtime) -> None:
    assert "180 levels" in str(runtime.value("(() => { var a = {}; a.a = a; return encode(a) })()"))


def test_dates_beyond_the_range_of_javascript_are_kept(runtime: Runtime) -> None:
    raw = bson.encode({"d": bson.datetime_ms.DatetimeMS(2**62)})
    runtime.load(raw)
    assert runtime.encoded("decode()") == raw


def random_document(rng: random.Random, depth: int) -> dict[str, object]:
    names = ["a", "b", "_id", "0", "1", "7", "07", "10", "-1", "4294967294", "4294967295", "__proto__", "1.5", "x" * 40]
    return {name: random_value(rng, depth) for name in rng.sample(names, rng.randrange(len(names)))}


def random_value(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(5) if depth else 0
    if kind == 1:
        return random_document(rng, depth - 1)
    if kind == 2:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return rng.choice([1, 2.5, "text", None, True])


def test_fields_stay_in_order_whatever_their_names_are(runtime: Runtime) -> None:
    rng = random.Random(7)
    for _ in range(300):
        raw = bson.encode(random_document(rng, 2))
        names = list(bson.decode(raw))
        runtime.load(raw)
        assert runtime.encoded("decode()") == raw
        assert runtime.value("Object.keys(decode())") == names
        assert runtime.value("(d => { var r = []; for (var n in d) r.push(n); return r })(decode())") == names


def test_a_document_with_numbers_as_names_may_be_changed_and_copied(runtime: Runtime) -> None:
    runtime.load(bson.encode({"b": 1, "10": 2, "2": 3}))
    names = "Object.keys((d => { %s; return d })(decode()))"
    assert runtime.value(names % "delete d['10']") == ["b", "2"]
    assert runtime.value(names % "d['5'] = 1; d['4'] = 1") == ["b", "10", "2", "4", "5"]
    assert runtime.value("Object.keys(joinedFields({_id: 1}, decode()))") == ["_id", "b", "10", "2"]
    assert runtime.value("tojson(decode())") == '{ "b" : 1, "10" : 2, "2" : 3 }'
    assert runtime.value("Object.assign({}, decode())") == {"2": 3, "10": 2, "b": 1}
