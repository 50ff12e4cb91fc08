"""The same map-reduce on a real server and in our workers: same keys, values and types, or the same refusal.

Known differences, none of them tested here: the order of the values given to reduce; reduce is not called for single
values; V8's own wording of type and syntax errors; arrow functions work; int32 values that no function touched and
int32 elements of arrays stay int32; returned regular expressions keep their pattern; names on prototypes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import bson
import pymongo
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.son import SON
from pymongo.errors import OperationFailure

from docstore.errors import CommandError
from docstore.js.workers import Workers
from tests.harness.reference import reference_server
from tests.unit.js.functions import job, outcome, stream

pytestmark = pytest.mark.reference

DOCUMENTS: list[dict[str, Any]] = [
    {
        "_id": bson.ObjectId("4f4221149a6777895a000000"),
        "i": 5, "d": 5.0, "half": 5.5, "l": Int64(7), "big": Int64(2**53 + 1), "s": "x", "n": None, "yes": True,
        "a": [1, 2.0, Int64(3)], "o": {"x": 1, "y": 2.0}, "dt": datetime(2020, 1, 1), "dec": bson.Decimal128("1.50"),
        "t": bson.Timestamp(1, 2), "b": Binary(b"hi", 0), "u": Binary(bytes(range(16)), 4), "r": bson.Regex("ab", "i"),
        "mn": bson.MinKey(), "mx": bson.MaxKey(), "ref": bson.DBRef("c", 1), "f": bson.Code("function(){ return 1 }"),
        "e": {}, "ea": [], "nan": float("nan"), "neg": -0.0,
    },
    {"_id": 2, "i": 6, "s": "y", "tags": ["a", "b", "a"]},
    {"_id": "three", "i": 7.5, "s": "x", "tags": []},
]  # fmt: skip

VALUES = [
    "this", "this.i",
    "this.i + 1", "this.l", "this.l + 1", "this.big", "'' + this.big", "this.o", "this.dt", "this.dec",
    "this.t", "this.t.t", "this.b", "this.u", "this.mn", "this.mx", "this.ref", "this.f", "this.e", "this.ea",
    "this.nan", "this.neg", "this.n", "this.missing", "[undefined, null, NaN]", "{a: undefined, b: NumberInt(4)}",
    "NumberLong(5)", "NumberLong('9007199254740993')", "NumberDecimal('1E+3')",
    "function() { return 1 }", "new Date(5)", "ISODate('2020-01-01T10:20:30.5Z')", "Timestamp(7, 8)", "MinKey",
    "DBRef('c', 1)", "HexData(0, '6869')", "UUID('00112233-4455-6677-8899-aabbccddeeff')", "{nested: {deep: [this.i]}}",
    "tojson(this.o)", "tojson(this.a)", "tojson(this.l)", "typeof this.i", "typeof this.l", "Object.keys(this.o)",
    "JSON.stringify(this.o)", "this._id.toString()", "'' + this._id", "Array.sum([1, 2])", "hex_md5('x')",
    "bsonWoCompare({a: 1}, {a: 2})", "this.l == 7", "this.l === 7", "'\\u00e9\\ud83d\\ude00'",
]  # fmt: skip

JOBS = [
    ("emit(this.s, this.i)", "return Array.sum(v)", None),
    ("emit(null, 1); emit(undefined, 2)", "return Array.sum(v)", None),
    ("emit(1, 1); emit(NumberLong(1), 1); emit(NumberDecimal('1.0'), 1)", "return v.length", None),
    ("emit({a: 1}, 1); emit({a: NumberLong(1)}, 1); emit({a: 1, b: 2}, 1)", "return v.length", None),
    ("emit([1], 1); emit([1, 2], 1); emit([], 1)", "return v.length", None),
    (
        "emit(this._id, 1); emit(this.s, 1); emit(true, 1); emit(this.dt, 1); emit(MinKey, 1); emit(MaxKey, 1)",
        "return v.length",
        None,
    ),
    ("for (var k in this.tags) emit(this.tags[k], {n: 1})", "return {n: v.reduce((t, x) => t + x.n, 0)}", None),
    ("emit(1, 1); emit(2, 2)", "return v.length", "return {k: k, v: v}"),
    ("emit(1, 1)", "return 1", "return undefined"),
    ("emit(this.s, 1); emit(this.s, 2)", "return undefined", None),
    ("this.i = this.i + 1; emit(this.s, this.i)", "return Array.sum(v)", None),
    ("throw 'x'", "return 1", None),
    ("throw {code: 5}", "return 1", None),
    ("throw null", "return 1", None),
    ("throw new Error('boo')", "return 1", None),
    ("nosuch()", "return 1", None),
    ("emit(1)", "return 1", None),
    ("emit(1, 2, 3)", "return 1", None),
    ("emit(1, 1); emit(1, 2)", "throw new Error('red')", None),
    ("emit(1, 1)", "return 1", "throw 5"),
]
CASES = [(f"emit('' + this._id, {value})", "return v[0]", None) for value in VALUES] + JOBS


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    directory = tmp_path_factory.mktemp("reference")
    with reference_server(directory) as port, pymongo.MongoClient[dict[str, Any]]("127.0.0.1", port) as client:
        client.test.c.insert_many(DOCUMENTS)
        yield client.test


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with asyncio.Runner() as runner:

        async def make() -> Workers:
            return Workers(1, spill=tmp_path_factory.mktemp("spill"))

        workers = runner.run(make())
        documents = [bson.encode(document) for document in DOCUMENTS]
        yield lambda work: runner.run(outcome(lambda sink: workers.map_reduce(work, stream(documents), sink)))
        runner.run(workers.close())


def whole(body: str, parameters: str) -> str:
    return f"function({parameters}) {{ {body} }}"


@pytest.mark.parametrize(("map_body", "reduce_body", "finalize_body"), CASES)
def test_agreement(real: Any, ours: Any, map_body: str, reduce_body: str, finalize_body: str | None) -> None:
    sources = {"map": whole(map_body, ""), "reduce": whole(reduce_body, "k, v")}
    if finalize_body is not None:
        sources["finalize"] = whole(finalize_body, "k, v")
    command = SON(
        [("mapReduce", "c"), *((name, bson.Code(text)) for name, text in sources.items()), ("out", {"inline": 1})]
    )
    expected: Any
    try:
        expected = sorted(bson.encode(result) for result in real.command(command)["results"])
    except OperationFailure as error:
        expected = error.code
    actual: Any
    try:
        actual = sorted(ours(job(sources["map"], sources["reduce"], sources.get("finalize"))).results)
    except CommandError as refusal:
        actual = refusal.code
    assert actual == expected
