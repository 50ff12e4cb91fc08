"""Values in texts of errors, against the texts of the reference."""

from __future__ import annotations

from uuid import UUID

import bson
import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from docstore.bson import from_python
from docstore.query.value.notation import display, display_document


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (DatetimeMS(-1), "new Date(-1)"),
        (DatetimeMS(253402300800000), "new Date(253402300800000)"),
        (MaxKey(), "MaxKey"),
        (MinKey(), "MinKey"),
        (Timestamp(1, 2), "Timestamp(1, 2)"),
        (ObjectId("0123456789abcdef01234567"), "ObjectId('0123456789abcdef01234567')"),
        (Binary(b"abc"), "BinData(0, 616263)"),
        (Binary(b"", 5), "BinData(5, )"),
        (Binary.from_uuid(UUID(int=5)), 'UUID("00000000-0000-0000-0000-000000000005")'),
        (Regex("a.b/", "i"), "/a.b//i"),
        (Code("f()"), "f()"),
        (Code("f()", {"a": 1}), "CodeWScope( f(), { a: 1 })"),
        (Int64(5), "5"),
        (5.0, "5.0"),
        (1e300, "1e+300.0"),
        (float("nan"), "nan.0"),
        (Decimal128("1.50"), "1.50"),
        (True, "true"),
        (None, "null"),
        ('a"b', '"a"b"'),
        ({}, "{}"),
        ([], "[]"),
        ([1, "a", [2]], '[ 1, "a", [ 2 ] ]'),
        (DBRef("c", 1), '{ $ref: "c", $id: 1 }'),
        ({"a": DatetimeMS(0), "b": {"c": Int64(3)}}, "{ a: new Date(0), b: { c: 3 } }"),
    ],
)
def test_texts(value: object, text: str) -> None:
    assert display(from_python(value)) == text


def test_long_values_are_cut() -> None:
    assert display(from_python("x" * 151)) == '"' + "x" * 150 + '..."'
    text = display_document(bson.encode({"a": list(range(100_000))}))
    assert text.startswith("{ a: [ 0, 1, 2, ")
    assert text.endswith("...")
    assert len(text) == 200
