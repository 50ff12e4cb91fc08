"""The words of a duplicate key error. What values look like is taken from a 6.0.5 server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import bson
import pytest

from docstore.errors import CommandError
from tests.unit.collection.building import RAW, insert, make, spec, store_on

SHOWN = [
    (1, "1"),
    (1.0, "1.0"),
    (2**40, "1099511627776"),
    ('s"q\n', '"s"q\n"'),
    (None, "null"),
    (True, "true"),
    ({"q": 1, "r": [1, "x"]}, '{ q: 1, r: [ 1, "x" ] }'),
    (bson.ObjectId("5" * 24), "ObjectId('555555555555555555555555')"),
    (datetime(2020, 1, 1), "new Date(1577836800000)"),
    (bson.Regex("a/b", "i"), "/a/b/i"),
    (bson.Decimal128("1.50"), "1.50"),
    (b"abc", "BinData(0, 616263)"),
    (bson.Binary(b"1" * 16, 4), 'UUID("31313131-3131-3131-3131-313131313131")'),
    (bson.Timestamp(1, 2), "Timestamp(1, 2)"),
    (bson.MinKey(), "MinKey"),
    (bson.Code("f()"), "f()"),
    (bson.Code("f()", {"a": 1}), "CodeWScope( f(), { a: 1 })"),
    (1e20, "1e+20.0"),
    (float("nan"), "nan.0"),
    (float("inf"), "inf.0"),
    (-0.0, "-0.0"),
    ([1, [2, 3]], "1"),
    ([[1]], "[ 1 ]"),
    (1.25, "1.25"),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN, ids=[row[1].strip() for row in SHOWN])
def test_values_are_shown_as_the_reference_shows_them(value: Any, shown: str) -> None:
    store = store_on()
    coll = make(store, "t2.k", bson.encode({"_id": 1, "v": value}), indexes=(spec(("v", 1), unique=True, sparse=True),))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, bson.encode({"_id": 2, "v": value, "a": 1}))
    assert refused.value.message == f"E11000 duplicate key error collection: t2.k index: v_1 dup key: {{ v: {shown} }}"
    assert refused.value.code == 11000
    assert refused.value.extra["keyPattern"] == {"v": 1}


COMPOUND = spec(("a", 1), ("b", -1), unique=True)
DOCUMENTS = [
    ({"a": [1, 2], "b": 3}, COMPOUND, "{ a: 1, b: 3 }", {"a": 1, "b": 3}),
    ({"b": [{"x": 1}, {"x": 2}]}, COMPOUND, "{ a: null, b: { x: 2 } }", {"a": None, "b": {"x": 2}}),
    ({"m": [{"n": 3}, {"n": 2}]}, spec(("m.n", 1), unique=True), "{ m.n: 2 }", {"m.n": 2}),
    ({"m": []}, spec(("m", 1), unique=True), "{ m: undefined }", {"m": None}),
    ({"m": [{"x": 1}, {"x": 0}]}, spec(("m.n", 1), unique=True), "{ m.n: null }", {"m.n": None}),
    ({"m": [5, {"n": 1}]}, spec(("m.0", 1), unique=True), "{ m.0: 5 }", {"m.0": 5}),
]


@pytest.mark.parametrize(("fields", "index", "shown", "value"), DOCUMENTS, ids=[row[2] for row in DOCUMENTS])
def test_the_colliding_combination_is_named(fields: dict[str, Any], index: Any, shown: str, value: Any) -> None:
    store = store_on()
    coll = make(store, "t2.k", bson.encode({"_id": 1, **fields}), indexes=(index,))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, bson.encode({"_id": 2, **fields}))
    assert refused.value.message.endswith(f"dup key: {shown}")
    assert refused.value.extra == {"keyPattern": bson.decode(index.key, RAW), "keyValue": value}


def test_a_long_text_is_cut() -> None:
    store = store_on()
    coll = make(store, "t2.k", bson.encode({"_id": "x" * 500}))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, bson.encode({"_id": "x" * 500}))
    assert f'_id: "{"x" * 150}..."' in refused.value.message
