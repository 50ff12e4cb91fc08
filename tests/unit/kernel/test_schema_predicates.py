"""What schemas say of values, compiled and interpreted alike."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.query.schema.value_keywords import equality_key
from tests.unit.kernel.kernels import Kernel

NUMBERS = frozenset((0x01, 0x10, 0x12, 0x13))


def passes(kernel: Kernel, predicate: Any, value: Any) -> bool:
    """Whether a value, that of the only property of a document, passes."""
    module = kernel.match.schema_predicates
    return bool(
        module.DocumentPredicate(module.Properties({"v": predicate}, [], None)).matches(bson.encode({"v": value}))
    )


def at_least(kernel: Kernel, bound: int) -> Any:
    compare = kernel.match.path_predicates.Compare("", "gte", (0x10, bound.to_bytes(4, "little")))
    return kernel.match.schema_predicates.Among(NUMBERS, compare)


def test_bounds_are_about_numbers_alone(kernel: Kernel) -> None:
    values = [5, 2, 3.5, "a", None, [1], float("nan")]
    assert [passes(kernel, at_least(kernel, 3), value) for value in values] == [
        True, False, True, True, True, True, False,
    ]  # fmt: skip


def test_properties_are_found_by_paths_patterns_and_what_is_left(kernel: Kernel) -> None:
    module, never = kernel.match.schema_predicates, kernel.match.predicate.Always(False)
    three = at_least(kernel, 3)
    holds = module.Properties({"a": three, "b.c": three}, [(lambda name: name.startswith("p"), three)], never)
    documents = [
        {"a": 3, "b.c": 1}, {"a": 1}, {"a": 3, "p1": 3}, {"p1": 1}, {"x": 1}, {}, {"a": 4, "b": 1},
    ]  # fmt: skip
    assert [passes(kernel, holds, each) for each in documents] == [True, False, True, False, False, True, False]
    nested = module.Properties({"b.c": three}, [], None)
    values: list[Any] = [{"b": {"c": 3}}, {"b": {"c": 1}}, {"b": [{"c": 1}]}, {"b": {}}, 1]
    assert [passes(kernel, nested, each) for each in values] == [True, False, True, True, True]


def test_elements_pass_by_their_place(kernel: Kernel) -> None:
    module, never = kernel.match.schema_predicates, kernel.match.predicate.Always(False)
    three = at_least(kernel, 3)
    values: list[Any] = [[3, 4], [3, 1], [], 1]
    assert [passes(kernel, module.Items((), three), each) for each in values] == [True, False, True, True]
    assert [passes(kernel, module.Items((three,), never), each) for each in values] == [False, False, True, True]
    assert [passes(kernel, module.Items((three,), None), each) for each in values] == [True, True, True, True]


@pytest.mark.parametrize(("code", "values", "sizes"), [
    (0x02, ["", "a", "äö", "x\U0001f600y"], [0, 1, 2, 3]), (0x04, [[], [1], [1, [2, 3]]], [0, 1, 2]),
    (0x03, [{}, {"a": 1}, {"a": {"b": 1}, "c": 1}], [0, 1, 2]),
])  # fmt: skip
def test_lengths_are_counted(kernel: Kernel, code: int, values: list[Any], sizes: list[int]) -> None:
    length = kernel.match.schema_predicates.Length
    for bound in range(4):
        assert [passes(kernel, length(code, bound, True), each) for each in values] == [n <= bound for n in sizes]
        assert [passes(kernel, length(code, bound, False), each) for each in values] == [n >= bound for n in sizes]
    assert passes(kernel, length(code, 5, False), None)


def test_values_are_equal_across_types_and_orders(kernel: Kernel) -> None:
    module = kernel.match.schema_predicates
    keys = {equality_key((0x10, b"\1\0\0\0")), equality_key((0x03, bson.encode({"a": 1, "b": 2})))}
    values: list[Any] = [1, 1.0, bson.Int64(1), 2, {"b": 2, "a": 1.0}, {"a": 1}]
    assert [passes(kernel, module.Listed(equality_key, keys), each) for each in values] == [
        True, True, True, False, True, False,
    ]  # fmt: skip
    different = module.Different(equality_key)
    arrays: list[Any] = [[1, 2], [1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[1], [1.0]], [], "aa"]
    assert [passes(kernel, different, each) for each in arrays] == [True, False, False, False, True, True]


def test_exactly_one_of_several_is_to_pass(kernel: Kernel) -> None:
    one = kernel.match.schema_predicates.OneOf([at_least(kernel, 3), at_least(kernel, 6)])
    assert [passes(kernel, one, each) for each in (1, 4, 8)] == [False, True, False]


def test_presence_is_asked_of_documents(kernel: Kernel) -> None:
    module = kernel.match.schema_predicates
    below = module.Holds(kernel.match.path_predicates.Exists("a.b", True))
    values: list[Any] = [{"a": [{"b": 1}]}, {"a": 1}, 1]
    assert [passes(kernel, below, each) for each in values] == [True, False, True]
    assert [passes(kernel, module.Required(["a", "c"]), each) for each in ({"c": 1, "a": None}, {"a": 1}, 1)] == [
        True, False, True,
    ]  # fmt: skip
