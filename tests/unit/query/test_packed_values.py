"""Long lists of a filter mean what short ones mean."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Regex, encode

from docstore.bson.walk import INT32
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter, In
from docstore.query.plan.value_ranges import value_ranges
from docstore.query.value.packed import PackedValues

_MANY = list(range(10_000))


def _parsed(values: list[Any]) -> In:
    tree: Filter = parse_filter(encode({"a": {"$in": values}}))
    assert isinstance(tree, In)
    return tree


def test_the_values_of_a_long_list_stay_packed() -> None:
    tree = _parsed(_MANY)
    assert isinstance(tree.values, PackedValues)
    assert len(tree.values) == 10_000
    assert tree.values[7] == tree.values[-9_993] == (INT32, b"\7\0\0\0")
    assert tree.values[1:3] == ((INT32, b"\1\0\0\0"), (INT32, b"\2\0\0\0"))
    assert tree == _parsed(_MANY)
    assert hash(tree) == hash(_parsed(_MANY))
    assert tree != _parsed(_MANY[::-1])


@pytest.mark.parametrize("more", [[], [None], [[1, 2]], [Regex("^z")], [Regex("^z"), "b"], [5, 5]])
def test_a_long_list_finds_and_bounds_what_its_parts_do(more: list[Any]) -> None:
    shuffled = _MANY[5_000:] + more + _MANY[:5_000]
    tree = _parsed(shuffled)
    matches = compile_filter(tree).matches
    for found in (0, 9_999, *([] if not more else ["zz"] if isinstance(more[0], Regex) else more)):
        assert matches(encode({"a": found}))
    assert not matches(encode({"a": 10_000}))
    assert not matches(encode({"a": "a"}))
    bounded = value_ranges(tree)
    assert bounded is not None
    ranges, exact = bounded
    assert exact is not any(isinstance(each, list | Regex) or each is None for each in more)
    assert list(ranges) == sorted(ranges)
    assert sum(item.point for item in ranges) >= 10_000
    assert len({item.lo for item in ranges}) == len(ranges)
