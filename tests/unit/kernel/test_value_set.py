"""The different values at a path, compiled and interpreted alike."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.int64 import Int64

from docstore.query.value.collation import parse_collation
from tests.unit.kernel.kernels import Kernel

DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"a": 1, "b": {"c": "x"}}, {"a": 1.0, "b": [{"c": "y"}, {"c": ["z", ["z"]]}, 5]}, {"a": [Int64(1), 2, [2]], "b": 3},
    {"a": None, "b": {"0": 7}}, {"b": [{"c": "X"}, [{"c": "no"}]]}, {"a": [], "b": [[1, {"c": 2}], {"c": [None]}]},
    {"a": {"x": []}, "b": {}},
)  # fmt: skip


def found(kernel: Kernel, path: str, fold: Any = None) -> list[Any]:
    values = kernel.group.value_set.ValueSet(path, fold)
    values.add([bson.encode(document) for document in DOCUMENTS])
    parts = [bytes((code,)) + b"v\0" + data for code, data in values.by_key.values()]
    return [bson.decode((len(each) + 5).to_bytes(4, "little") + each + b"\0")["v"] for each in parts]


@pytest.mark.parametrize(("path", "expected"), [
    ("a", [1, 2, [2], None, {"x": []}]), ("b.c", ["x", "y", "z", ["z"], "X", None]),
    ("b.0", [{"c": "y"}, 7, {"c": "X"}, 1, {"c": 2}]),
    ("b.0.c", ["y", "X", 2]), ("b.1", [{"c": ["z", ["z"]]}, {"c": "no"}, {"c": [None]}]), ("a.x", []), ("z", []),
    ("a.²", []),
])  # fmt: skip
def test_values_are_found_through_arrays_and_each_once(kernel: Kernel, path: str, expected: list[Any]) -> None:
    values = found(kernel, path)
    assert repr(values) == repr(expected)


def test_values_that_are_folded_alike_count_once(kernel: Kernel) -> None:
    rules = parse_collation(bson.encode({"locale": "en", "strength": 2}))
    assert rules is not None
    assert found(kernel, "b.c", rules.fold) == ["x", "y", "z", ["z"], None]


def test_the_size_is_that_of_the_values(kernel: Kernel) -> None:
    values = kernel.group.value_set.ValueSet("a")
    values.add([bson.encode({"a": "abc"}), bson.encode({"a": "abc"}), bson.encode({"a": 1})])
    assert values.size == 8 + 8 + 4 + 8
