"""Masks of bits: large ones take no more room than they came in."""

from __future__ import annotations

import tracemalloc
from typing import Any

import bson
import pytest

from docstore.node.explain.filter import filter_document
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter

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
