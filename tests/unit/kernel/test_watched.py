from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kernel.kernels import Kernel


def watched(kernel: Kernel, items: list[Any], *arguments: Any, **traits: Any) -> tuple[list[Any], list[Any]]:
    ends: list[Any] = []
    walk = kernel.Watched(iter(items), ends.append, *arguments, **traits)
    found = list(walk)
    assert list(walk) == []
    return found, ends


def test_the_end_is_looked_at_once_with_the_newest_item(kernel: Kernel) -> None:
    assert watched(kernel, [b"a", b"b"]) == ([b"a", b"b"], [b"b"])
    assert watched(kernel, []) == ([], [None])


def test_the_floor_ends_a_walk_downwards(kernel: Kernel) -> None:
    assert watched(kernel, [b"c", b"b", b"a"], b"b") == ([b"c", b"b"], [b"b"])
    pairs = [(b"c", b"1"), (b"b", b"2"), (b"a", b"3")]
    assert watched(kernel, pairs, b"b", pairs=True) == (pairs[:2], [pairs[1]])
    assert watched(kernel, pairs, b"b", second=True) == ([b"1", b"2"], [pairs[1]])


def test_what_the_look_at_the_end_raises_is_raised(kernel: Kernel) -> None:
    def refuse(_newest: object) -> None:
        raise ValueError("damaged")

    walk = kernel.Watched(iter([b"a"]), refuse)
    assert next(walk) == b"a"
    with pytest.raises(ValueError, match="damaged"):
        next(walk)
