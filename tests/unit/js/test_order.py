"""The order of keys in JavaScript is the kernel's order: sorted runs written by one are merged by the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pytest
from hypothesis import example, given, settings

from docstore.bson import Value, compare, get_field
from docstore.kernel.keys.encoding import encode_key
from tests.unit.js.conftest import Runtime
from tests.unit.js.strategies import values
from tests.unit.js.test_codec import OPTIONS

_runtimes: list[Runtime] = []


@pytest.fixture(scope="module", autouse=True)
def _one_runtime() -> Iterator[None]:
    _runtimes.append(Runtime())
    yield
    _runtimes.pop().isolate.close()


def pair_of(a: Any, b: Any) -> tuple[bytes, Value, Value]:
    raw = bson.encode({"a": a, "b": b}, codec_options=OPTIONS)
    left, right = get_field(raw, "a"), get_field(raw, "b")
    assert left is not None
    assert right is not None
    return raw, left, right


@settings(max_examples=300, deadline=None)
@given(a=values, b=values)
@example(a="\ue000", b="\U0001f600")
@example(a=bson.Decimal128("1.10"), b=1.1)
@example(a=bson.Int64(2**53 + 1), b=float(2**53))
@example(a=bson.Decimal128("9007199254740993"), b=bson.Int64(2**53 + 1))
@example(a={"a": 1}, b={"a": 1.0})
@example(a={"a": 1, "b": 2}, b={"a": 1})
@example(a=float("nan"), b=-float("inf"))
@example(a=[1, 2], b=[1, "x"])
def test_comparison_agrees_with_the_kernel(a: Any, b: Any) -> None:
    raw, left, right = pair_of(a, b)
    runtime = _runtimes[0]
    runtime.load(raw)
    order, same = runtime.value("(d => [compareValues(d.a, d.b), canonical(d.a) === canonical(d.b)])(decode())")  # type: ignore[misc]
    assert order == compare(left, right)
    assert same == (encode_key(left) == encode_key(right))
