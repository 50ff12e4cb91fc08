"""The bit operators: masks, and which values have which bits."""

from __future__ import annotations

import tracemalloc
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.node.explain.filter import filter_document
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from tests.unit.query.raw import raw


def matches(operator: str, mask: Any, value: Any) -> bool:
    return compile_filter(parse_filter(raw({"v": {operator: mask}}))).matches(raw({"v": value}))


@pytest.mark.parametrize("mask", [6, 6.0, Int64(6), Decimal128("6"), b"\x06", b"\x06\x00", [1, 2], [2, 1, 1.0]])
def test_a_mask_may_be_a_number_binary_data_or_positions(mask: Any) -> None:
    assert [matches("$bitsAllSet", mask, value) for value in (6, 7, 2, 0)] == [True, True, False, False]
    assert [matches("$bitsAnySet", mask, value) for value in (6, 7, 2, 0)] == [True, True, True, False]
    assert [matches("$bitsAllClear", mask, value) for value in (6, 7, 2, 0)] == [False, False, False, True]
    assert [matches("$bitsAnyClear", mask, value) for value in (6, 7, 2, 0)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (-1, [0, 1, 62, 63, 64, 500]),
        (Int64(-(2**63)), [63, 64, 500]),
        (2.0, [1]),
        (-(2.0**63), [63, 64, 500]),
        (Decimal128("2.5"), [1]),
        (Decimal128("NaN"), [63, 64, 500]),
        (Decimal128("1E+30"), [63, 64, 500]),
        (b"\x02", [1]),
        (b"\x00" * 8 + b"\x01", [64]),
        ([8, 2], [1]),
    ],
)
def test_the_bits_of_a_value(value: Any, bits: list[int]) -> None:
    assert [position for position in (0, 1, 62, 63, 64, 500) if matches("$bitsAllSet", [position], value)] == bits


@pytest.mark.parametrize("value", [2.5, float("nan"), float("inf"), 2.0**63, "2", True, None, {}])
def test_other_values_have_no_bits(value: Any) -> None:
    assert not any(matches(operator, 0, value) for operator in ("$bitsAllSet", "$bitsAllClear"))


@pytest.mark.parametrize(
    ("mask", "code"),
    [
        (-1, Code.FailedToParse),
        (2.5, Code.FailedToParse),
        (2.0**63, Code.FailedToParse),
        (float("nan"), Code.FailedToParse),
        ([-1], Code.BadValue),
        ([1.5], Code.BadValue),
        (["a"], Code.BadValue),
        ([2**31], Code.BadValue),
        ("a", Code.BadValue),
    ],
)
def test_refusals(mask: Any, code: int) -> None:
    with pytest.raises(CommandError) as refused:
        matches("$bitsAllSet", mask, 1)
    assert refused.value.code == code


VALUES = [0, 5, -1, 2**40, -(2**63), 5.0, 5.5, b"", b"\5", b"\0" * 9 + b"\1", "text", None]
MASKS: list[Any] = [0, 5, 2**40, b"", b"\5", b"\0" * 9 + b"\1", b"\xff" * 20, [0, 2], [63], [64, 100], [], [2, 2, 80]]


def positions(mask: Any) -> list[int]:
    if isinstance(mask, list):
        return sorted(set(mask))
    number = mask if isinstance(mask, int) else int.from_bytes(mask, "little")
    return [at for at in range(number.bit_length()) if number >> at & 1]


def expected(name: str, value: Any, mask: Any) -> bool:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        number = int.from_bytes(value, "little")
        bits = [bool(number >> at & 1) for at in positions(mask)]
    elif isinstance(value, int):
        bits = [bool(value >> min(at, 63) & 1) for at in positions(mask)]
    else:
        return False
    wanted = name.endswith("Set")
    return (all if "All" in name else any)(bit is wanted for bit in bits)


@pytest.mark.parametrize("name", ["$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"])
def test_bits_are_tested_whatever_the_form_of_the_mask(name: str) -> None:
    for mask in MASKS:
        predicate = compile_filter(parse_filter(bson.encode({"a": {name: mask}})))
        for value in VALUES:
            assert predicate.matches(bson.encode({"a": value})) is expected(name, value, mask), (mask, value)


def test_a_long_mask_takes_its_own_size() -> None:
    raw = bson.encode({"a": {"$bitsAnySet": b"\xff" * 2_000_000}})
    tracemalloc.start()
    tree = parse_filter(raw)
    predicate = compile_filter(tree)
    assert not predicate.matches(bson.encode({"a": "text"}))
    assert predicate.matches(bson.encode({"a": b"\1"}))
    assert len(filter_document(tree)["a"]["$bitsAnySet"]) == 2_000_000
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000
