"""Keys of what lies in elements of arrays are those that the expansion of all fields finds, or none are given."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest

from docstore.bson.walk import OBJECT
from docstore.errors import CommandError
from docstore.kernel.keys.expansion import Field, expand
from docstore.kernel.keys.pattern import KeyPattern
from tests.unit.kernel import kernels

PATHS = ["a", "b", "a.b", "a.c", "a.b.c", "a.d.b", "b.a", "a.0", "a.0.b", "a.b.0", "c"]


def some_value(rng: Random, depth: int = 4) -> Any:
    chance = rng.random()
    if not depth or chance < 0.25:
        return rng.choice([0, 1, 2.5, "x", "yy", None, True, {}, []])
    if chance < 0.6:
        return [some_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice("abcd"): some_value(rng, depth - 1) for _ in range(rng.randint(1, 3))}


def expanded(pattern: KeyPattern, leaves: list[int], raw: bytes) -> tuple[list[bytes], int]:
    combinations: list[Any] = []
    named = zip(pattern.fields, leaves, strict=True)
    fields = [Field((OBJECT, raw), path.split("."), (), "", leaf) for (path, _), leaf in named]
    places = expand(fields, combinations)
    return sorted({pattern.encode(members) for members in combinations}), places


@pytest.mark.parametrize("kernel", [kernels.installed(), kernels.interpreted()], ids=["installed", "interpreted"])
def test_they_are_those_of_the_expansion(kernel: kernels.Kernel) -> None:
    rng = Random(11)
    given = several = 0
    for _ in range(20000 if kernels.is_compiled(kernel) else 3000):
        fields = [(path, rng.choice([1, -1])) for path in rng.sample(PATHS, rng.choice([1, 1, 2, 3]))]
        raw = bson.encode({name: some_value(rng) for name in "abc"})
        pattern = KeyPattern(fields)
        paths = [path.split(".") for path, _ in fields]
        ends = [sum(map(len, paths[: place + 1])) for place in range(len(paths))]
        leaves = [1 << (end - 1) for end in ends]
        names = [[name.encode() for name in path] for path in paths]
        found = kernel.keys.elements.element_keys(raw, names, [direction < 0 for _, direction in fields], leaves, None)
        if found is None:
            continue
        given += 1
        several += len(fields) > 1 and len(found[0]) > 1
        try:
            wanted = expanded(pattern, leaves, raw)
        except CommandError as error:
            raise AssertionError((fields, bson.decode(raw))) from error
        assert (sorted(found[0]), found[1]) == wanted, (fields, bson.decode(raw))
    assert given > 1000
    assert several > 50
