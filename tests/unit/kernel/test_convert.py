from __future__ import annotations

import math

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import int32, int64


@pytest.mark.parametrize(
    "thing",
    [
        1,
        Int64(1),
        1.5,
        "x",
        None,
        True,
        b"\0\1",
        {"a": {"b": [1, {"c": None}]}},
        [1, "two"],
        DatetimeMS(2**60),
        Decimal128("1.50"),
        bson.ObjectId(),
        bson.MinKey(),
        bson.Regex("a", "i"),
        bson.Timestamp(1, 2),
    ],
)
def test_python_values_survive_the_way_there_and_back(kernel: Kernel, thing: object) -> None:
    assert kernel.to_python(kernel.from_python(thing)) == thing


def test_integers_take_the_smallest_type_that_holds_them(kernel: Kernel) -> None:
    assert kernel.from_python(2**31 - 1) == int32(2**31 - 1)
    assert kernel.from_python(2**31) == int64(2**31)
    assert kernel.from_python(Int64(1)) == int64(1)


def test_documents_that_look_like_references_stay_documents_in_their_order(kernel: Kernel) -> None:
    raw = kernel.document_from(
        [("a", 0x03, kernel.document_from([("$id", *int32(1)), ("$ref", *kernel.from_python("c")), ("x", *int32(2))]))]
    )
    for shown in (
        kernel.document_to_python(raw)["a"],
        kernel.to_python((0x04, kernel.array_from([(0x03, raw)])))[0]["a"],
    ):
        assert type(shown) is dict
        assert list(shown.items()) == [("$id", 1), ("$ref", "c"), ("x", 2)]


def test_what_bson_cannot_hold_is_a_bad_value(kernel: Kernel) -> None:
    for thing in (2**64, object(), {1: 2}, {"a\0": 1}):
        with pytest.raises(CommandError) as refused:
            kernel.from_python(thing)
        assert refused.value.code == Code.BadValue


def test_bytes_that_are_not_bson_are_refused(kernel: Kernel) -> None:
    with pytest.raises(CommandError) as refused:
        kernel.document_to_python(b"\x05\0\0\0\1")
    assert refused.value.code == Code.InvalidBSON


def test_nan_comes_out_as_nan(kernel: Kernel) -> None:
    assert math.isnan(kernel.to_python(kernel.from_python(float("nan"))))
