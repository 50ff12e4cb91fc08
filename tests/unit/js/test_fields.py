"""The fields found in a map function's source are all that it can read."""

from __future__ import annotations

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.js.fields import fields_read
from tests.unit.js.conftest import Runtime


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("function() { if (!this.tags) return; for (i in this.tags) emit(this.tags[i], 1) }", ["tags"]),
        ("function() { emit(this . a, this\n.b) }", ["a", "b"]),
        ("function() { emit(1, 1) }", []),
        ("function() { emit(this.a.b.c, this.a.d) }", ["a"]),
        ("function() { var thisThing = 1; emit(thisThing, $this) }", []),
        ("function() { this.a = 1; emit(this.a instanceof Array, -this.b) }", ["a", "b"]),
    ],
)
def test_plain_uses_are_understood(source: str, fields: list[str]) -> None:
    assert fields_read(source) == fields


@pytest.mark.parametrize(
    "source",
    [
        "function() { emit(1, this) }",
        "function() { var self = this; emit(self.a, 1) }",
        "function() { emit(this['a'], 1) }",
        "function() { emit(this.a(), 1) }",
        "function() { emit(this.valueOf ().b, 1) }",
        "function() { emit(this.valueOf/**/().b, 1) }",
        "function() { emit(this.valueOf\n// x\n().b, 1) }",
        "function() { emit(this.valueOf<!-- x\n().b, 1) }",
        "function() { emit(this.valueOf\n--> x\n().b, 1) }",
        "function() { emit(this.valueOf?.().b, 1) }",
        "function() { emit(this?.a, 1) }",
        "function() { emit(this.valueOf`x`.b, 1) }",
        "function() { emit(this.\\u0061, 1) }",
        "function() { emit(this.é, 1) }",
        "function() { emit(this.aé, 1) }",
        "function() { emit(this/**/.a, 1) }",
        "function() { with (this) emit(a, 1) }",
        "function() { emit(eval('th' + 'is').a, 1) }",
        "function() { emit(arguments.callee, this.a) }",
    ],
)
def test_uses_that_may_reach_any_field_end_the_analysis(source: str) -> None:
    assert fields_read(source) is None


def test_other_functions_of_the_job_may_not_reach_the_document_either() -> None:
    assert fields_read("function() { emit(this.a, 1) }", ["function(k, v) { return this }"]) is None


PIECES = [
    "this", "this.a", "this.b", ".a", ".b", "['b']", "()", "(", ")", "?.b", "`x`", "/**/", "//\n", "\n", "= 1", "+ 1",
    ";", "in", "JSON.stringify(", "Object.keys(", "x", "x =", "y =>",
    "?1:2", "function(){return ", "}", "{", ".valueOf",
    ".call(", ",", "-", "[", "]", "'this'", "!", "typeof ", "\\u0061",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9))
def test_decoding_only_those_fields_changes_nothing(pieces: list[str]) -> None:
    body = f"var x, y; var seen = JSON.stringify([{' '.join(pieces)}]); return seen"
    source = f"function(){{ {body} }}"
    fields = fields_read(source)
    if fields is None:
        return
    runtime = shared_runtime()
    runtime.load(bson.encode({"a": {"b": [1, "two"]}, "b": "secret", "c": 3}))
    call = f"compileFunction({source!r}).call"
    runtime.value("wantOnly(undefined)")
    whole = runtime.value(f"{call}(decode())")
    wanted = ",".join(repr(field) for field in fields)
    runtime.value(f"wantOnly(new Set([{wanted}]))")
    assert runtime.value(f"{call}((at(0), readFields()))") == whole


_runtimes: list[Runtime] = []


def shared_runtime() -> Runtime:
    if not _runtimes:
        _runtimes.append(Runtime())
    return _runtimes[0]


@pytest.fixture(scope="module", autouse=True)
def _close_runtime() -> object:
    yield
    while _runtimes:
        _runtimes.pop().isolate.close()
