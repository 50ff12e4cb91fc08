"""The element that a filter of equalities has matched is the one that its tree points at, or nothing is said."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128

from docstore.errors import CommandError
from docstore.kernel.compute.elements import matched_element
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.positions import Positions
from tests.unit.kernel import kernels

VALUES: list[Any] = [0, 1, 1.0, "x", "y", True, None, Decimal128("1"), b"\1", float("nan"), [1], [], {"a": 1}]
PATHS = ["a", "b", "a.b", "a.c", "b.a", "a.b.c", "a.0", "a.0.b", "_id", "c", "c.c"]


def some_value(rng: Random, depth: int = 3) -> Any:
    chance = rng.random()
    if not depth or chance < 0.3:
        return rng.choice(VALUES[:3] if rng.random() < 0.7 else VALUES)
    if chance < 0.7:
        return [some_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice("abc"): some_value(rng, depth - 1) for _ in range(rng.randint(1, 3))}


def some_elements(rng: Random) -> Any:
    """Mostly documents in an array."""
    if rng.random() < 0.3:
        return some_value(rng)
    return [{name: some_value(rng, 1) for name in "abc"} for _ in range(rng.randint(1, 4))]


def some_filter(rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        path, value = rng.choice(PATHS), rng.choice(VALUES[:3] if rng.random() < 0.9 else VALUES)
        if rng.random() < 0.3:
            value = {"$elemMatch": {rng.choice("abc"): value, rng.choice("abc"): rng.choice(VALUES[:3])}}
        elif rng.random() < 0.1:
            value = {"$gt": value}
        found[path] = value
    return found


@pytest.mark.parametrize("kernel", [kernels.installed(), kernels.interpreted()], ids=["installed", "interpreted"])
def test_it_is_the_one_that_the_tree_points_at(kernel: kernels.Kernel) -> None:
    rng = Random(5)
    known = 0
    for _ in range(40000 if kernels.is_compiled(kernel) else 4000):
        filter_ = bson.encode(some_filter(rng))
        raw = bson.encode({name: some_elements(rng) for name in "abc"})
        matched = kernel.compute.elements.matched_element(filter_)
        if matched is None:
            continue
        tree = parse_filter(filter_)
        general = Positions(tree)
        assert sorted(matched.paths) == sorted(general.paths)
        if not compile_filter(tree).matches(raw):
            continue
        place = matched.of(raw)
        if place != -2:
            assert general.of(raw) == (None if place < 0 else str(place)), (bson.decode(filter_), bson.decode(raw))
            known += place >= 0
    assert known > (500 if kernels.is_compiled(kernel) else 50)


def test_a_filter_that_is_refused_has_none() -> None:
    for filter_ in ({"a": {"$elemMatch": 1}}, {"$x": 1}, {"a": {"$elemMatch": {"$x": 1}}}, {"a": {"$x": 1}}):
        raw = bson.encode(filter_)
        with pytest.raises(CommandError):
            parse_filter(raw)
        assert matched_element(raw) is None
