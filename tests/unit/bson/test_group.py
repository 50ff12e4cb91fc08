"""Groups made on raw bytes against a plain calculation in Python."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from types import ModuleType
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.bson.walk import Value
from tests.unit.bson.samples import int32


def nothing(document: bytes) -> Value | None:
    raise AssertionError("no array is on the way")


def path(kernel: ModuleType, name: str) -> Any:
    return kernel.group.PathSource(name, nothing)


def one(kernel: ModuleType) -> Any:
    return kernel.group.ConstantSource(int32(1))


def partials(kernel: ModuleType, grouping: Any) -> list[tuple[Any, list[Any]]]:
    return [
        (kernel.to_python(key), [kernel.to_python(state.partial()) for state in states])
        for key, states in grouping.groups()
    ]


def test_counts_and_sums_of_unwound_arrays(kernel: ModuleType) -> None:
    rnd = Random(8)
    things: list[dict[str, Any]] = [
        {"tags": [rnd.choice("abcd") for _ in range(rnd.randrange(4))], "n": rnd.randrange(100)} for _ in range(300)
    ]
    things += [{"n": 1}, {"tags": None, "n": 1}, {"tags": "a", "n": 1}]
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for thing in things:
        for tag in thing.get("tags") or []:
            counts[tag][0] += 1
            counts[tag][1] += thing["n"]
    grouping = kernel.group.Grouping(path(kernel, "tags"), [("$sum", one(kernel)), ("$sum", path(kernel, "n"))], "tags")
    grouping.add([bson.encode(thing) for thing in things[:100]])
    grouping.add([bson.encode(thing) for thing in things[100:]])
    found = {key: [count[1], total[1]] for key, (count, total) in partials(kernel, grouping)}
    assert found == dict(counts)
    assert grouping.held > 0


def test_equal_keys_of_different_types_are_one_group_named_by_the_first(kernel: ModuleType) -> None:
    grouping = kernel.group.Grouping(path(kernel, "k"), [("$sum", one(kernel))])
    keys = [Int64(1), 1, 1.0, Decimal128("1"), None, "x"]
    grouping.add([bson.encode({"k": key}) for key in keys] + [bson.encode({})])
    found = partials(kernel, grouping)
    assert [(key, count[1]) for key, (count,) in found] == [(1, 4), (None, 2), ("x", 1)]
    assert type(found[0][0]) is Int64


def test_a_key_of_several_paths_leaves_missing_ones_out(kernel: ModuleType) -> None:
    key = kernel.group.DocumentSource([("x", path(kernel, "a")), ("y", path(kernel, "b.c"))])
    grouping = kernel.group.Grouping(key, [("$sum", one(kernel))])
    grouping.add([bson.encode(thing) for thing in ({"a": 1, "b": {"c": 2}}, {"a": 1}, {"a": 1.0, "b": 5}, {})])
    assert [(found, count[1]) for found, (count,) in partials(kernel, grouping)] == [
        ({"x": 1, "y": 2}, 1),
        ({"x": 1}, 2),
        ({}, 1),
    ]


def test_accumulators_hand_out_their_parts(kernel: ModuleType) -> None:
    names = ("$sum", "$avg", "$min", "$max", "$first", "$last")
    grouping = kernel.group.Grouping(
        kernel.group.ConstantSource((0x0A, b"")), [(name, path(kernel, "v")) for name in names]
    )
    grouping.add(
        [bson.encode(thing) for thing in ({}, {"v": 3}, {"v": None}, {"v": Int64(5)}, {"v": 0.5}, {"v": "x"}, {})]
    )
    [(key, found)] = partials(kernel, grouping)
    zero = Decimal128("0")
    assert key is None
    assert found == [[1, 8, 0.5, 0.0, zero], [3, 1, 8, 0.5, 0.0, zero], 0.5, "x", {"v": None}, {"v": None}]


def test_what_cannot_be_added_exactly_is_kept_aside(kernel: ModuleType) -> None:
    grouping = kernel.group.Grouping(kernel.group.ConstantSource(int32(0)), [("$sum", path(kernel, "v"))])
    aside = [Decimal128("0.1"), float("inf"), Int64(2**62), Int64(-(2**63))]
    grouping.add([bson.encode({"v": number}) for number in [1, *aside, Int64(2**61), Int64(2**61), 2]])
    [(_, [state])] = grouping.groups()
    kept = [kernel.to_python(extra) for extra in state.extras]
    whole = kernel.to_python(state.partial())[1]
    assert kept[:4] == aside
    assert whole + sum(kept[4:]) == 3 + 2**62


def test_doubles_are_added_with_compensation(kernel: ModuleType) -> None:
    grouping = kernel.group.Grouping(kernel.group.ConstantSource(int32(0)), [("$sum", path(kernel, "v"))])
    grouping.add([bson.encode({"v": number}) for number in [1e100, 1.0, -1e100, 1.0]])
    [(_, [state])] = grouping.groups()
    kind, whole, high, low, _ = kernel.to_python(state.partial())
    assert (kind, whole, high + low) == (1, 0, 2.0)


def test_paths_inside_and_beside_the_unwound_array(kernel: ModuleType) -> None:
    grouping = kernel.group.Grouping(
        path(kernel, "a.b.k"), [("$sum", path(kernel, "a.b.n")), ("$max", path(kernel, "a.c"))], "a.b"
    )
    grouping.add([bson.encode({"a": {"b": [{"k": "x", "n": 1}, {"k": "y", "n": 2}, {"k": "x", "n": 3}, 7], "c": 9}})])
    found = [(key, total[1], highest) for key, (total, highest) in partials(kernel, grouping)]
    assert found == [("x", 4, 9), ("y", 2, 9), (None, 0, 9)]


def test_a_path_through_an_array_asks_otherwise(kernel: ModuleType) -> None:
    asked: list[dict[str, Any]] = []

    def otherwise(document: bytes) -> Value | None:
        asked.append(bson.decode(document))
        return int32(len(asked))

    source = kernel.group.PathSource("a.b.c", otherwise)
    plain = kernel.group.Grouping(source, [])
    plain.add([bson.encode({"a": [{"b": {"c": 1}}]})])
    unwound = kernel.group.Grouping(kernel.group.PathSource("a.b.c", otherwise), [], "a")
    unwound.add([bson.encode({"z": 1, "a": [{"b": [{"c": 5}]}, {"b": {"c": 7}}]})])
    assert asked == [{"a": [{"b": {"c": 1}}]}, {"a": {"b": [{"c": 5}]}}]
    assert [kernel.to_python(key) for key, _ in plain.groups()] == [1]
    assert [kernel.to_python(key) for key, _ in unwound.groups()] == [2, 7]


def test_sources_that_need_the_unwound_document_are_refused(kernel: ModuleType) -> None:
    for source in (path(kernel, "a"), kernel.group.CallSource(lambda document: None)):
        with pytest.raises(ValueError, match="unwound"):
            kernel.group.Grouping(source, [], "a.b")


def test_a_function_can_be_a_source(kernel: ModuleType) -> None:
    source = kernel.group.CallSource(lambda document: int32(len(document)) if len(document) > 5 else None)
    grouping = kernel.group.Grouping(source, [("$sum", one(kernel))])
    grouping.add([kernel.EMPTY_DOCUMENT, bson.encode({"a": 1}), bson.encode({"b": 2})])
    assert [(key, count[1]) for key, (count,) in partials(kernel, grouping)] == [(None, 1), (12, 2)]
