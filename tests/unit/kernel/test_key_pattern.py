from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import document, int32

NULL = (0x0A, b"")
UNDEFINED = (0x06, b"")


def keys_of(kernel: Kernel, pattern: list[tuple[str, int]], thing: dict[str, Any]) -> tuple[list[bytes], bool]:
    keys, places = kernel.KeyPattern(pattern).keys(bson.encode(thing))
    return keys, bool(places)


def expected(kernel: Kernel, pattern: list[tuple[str, int]], rows: list[tuple[Any, ...]]) -> list[bytes]:
    made = kernel.KeyPattern(pattern)
    converted = [
        [thing if isinstance(thing, tuple) else kernel.from_python(thing) for thing in members] for members in rows
    ]
    return sorted(made.encode(members) for members in converted)


CASES: list[tuple[list[tuple[str, int]], dict[str, Any], list[tuple[Any, ...]], bool]] = [
    ([("a", 1)], {"a": 5}, [(5,)], False),
    ([("a", 1)], {}, [(NULL,)], False),
    ([("a.b", 1)], {"a": 5}, [(NULL,)], False),
    ([("a.b", 1)], {"a": {"b": "x"}}, [("x",)], False),
    ([("a", 1), ("b", -1)], {"a": 1, "b": 2}, [(1, 2)], False),
    ([("a", 1)], {"a": [3, 1, 3]}, [(1,), (3,)], True),
    ([("a", 1)], {"a": []}, [(UNDEFINED,)], True),
    ([("a.b", 1)], {"a": []}, [(NULL,)], True),
    ([("a", 1)], {"a": [[1, 2], 3]}, [([1, 2],), (3,)], True),
    ([("a", 1), ("b", -1)], {"a": [1, 2], "b": 7}, [(1, 7), (2, 7)], True),
    ([("a.b", 1)], {"a": [{"b": 1}, {"b": [2, 3]}, 4, {}]}, [(1,), (2,), (3,), (NULL,)], True),
    ([("a.b", 1), ("a.c", -1)], {"a": [{"b": 1, "c": 2}, {"b": 3}]}, [(1, 2), (3, NULL)], True),
    ([("a.b", 1), ("a", 1)], {"a": [{"b": 1}]}, [(1, {"b": 1})], True),
    ([("a.b", 1)], {"a": [[{"b": 1}]]}, [(NULL,)], True),
    ([("a.0", 1)], {"a": [7, 8]}, [(7,)], True),
    ([("a.1.b", 1)], {"a": [7, {"b": 9}]}, [(9,)], True),
    ([("a.0", 1)], {"a": [[1, 2]]}, [([1, 2],)], True),
    ([("a.5", 1)], {"a": [1]}, [(NULL,)], True),
    ([("a.b.c", 1), ("a.0.b", 1)], {"a": [{"b": [{"c": 1}]}]}, [(1, {"c": 1})], True),
    ([("a.b.c", 1), ("a.0.b", 1)], {"a": [{"b": [{"c": 1}]}, {"b": 2}]}, [(1, {"c": 1}), (NULL, {"c": 1})], True),
    ([("a.0.b", 1), ("a.b.c", 1)], {"a": [{"b": 5}, {"b": [{"c": 1}]}]}, [(5, NULL), (5, 1)], True),
]


def test_entries_are_the_marked_keys_between_their_ends(kernel: Kernel) -> None:
    more: list[tuple[list[tuple[str, int]], dict[str, Any]]] = [
        ([("a", 1), ("b", 1)], {"a": [2.0, 1], "b": 2.0}),
        ([("b", -1), ("a", -1), ("c", 1)], {"a": ["x", "x", [1]], "b": {"x": 1}, "c": 5}),
        ([("a", 1), ("b.c", 1)], {"a": 1.0, "b": {}}),
    ]
    for fields, thing in [*more, *((fields, thing) for fields, thing, _, _ in CASES)]:
        pattern = kernel.KeyPattern(fields)
        raw = bson.encode(thing)
        keys, places, marks = pattern.marked_keys(raw)
        entries: list[bytes] = []
        marked: dict[bytes, bytes] = {}
        assert pattern.add_entries(b"pre", raw, b"rid", entries, marked) == places
        assert sorted(entries) == [b"pre" + key + b"rid" for key in keys]
        assert marked == (dict.fromkeys(entries, marks) if marks else {})
        gathered = kernel.keys.gathered.GatheredEntries(2)
        assert pattern.gather(b"pre", raw, b"rid", gathered) == places
        gathered.sort_run(1)
        given: dict[bytes, bytes] = {}
        assert gathered.put_next(given, 1_000) == len(keys)
        assert list(given.items()) == [(b"pre" + key + b"rid", marks) for key in keys]


@pytest.mark.parametrize(("pattern", "thing", "rows", "multikey"), CASES)
def test_keys_of_a_document(
    kernel: Kernel,
    pattern: list[tuple[str, int]],
    thing: dict[str, Any],
    rows: list[tuple[Any, ...]],
    multikey: bool,
) -> None:
    assert keys_of(kernel, pattern, thing) == (expected(kernel, pattern, rows), multikey)


def test_arrays_side_by_side_are_refused(kernel: Kernel) -> None:
    pattern = [("a", 1), ("b", 1)]
    with pytest.raises(CommandError) as refused:
        keys_of(kernel, pattern, {"a": [1], "b": [2]})
    assert refused.value.code == Code.CannotIndexParallelArrays
    with pytest.raises(CommandError) as refused:
        kernel.KeyPattern(pattern).sort_key(bson.encode({"a": [1], "b": [2]}))
    assert refused.value.code == Code.BadValue


def test_arrays_in_two_elements_of_one_are_side_by_side(kernel: Kernel) -> None:
    with pytest.raises(CommandError) as refused:
        keys_of(kernel, [("a.b", 1), ("a.0.b", 1)], {"a": [{"b": [1]}, {"b": [1]}]})
    assert refused.value.code == Code.CannotIndexParallelArrays


def test_a_number_that_could_be_a_name_or_a_place_is_refused(kernel: Kernel) -> None:
    with pytest.raises(CommandError) as refused:
        keys_of(kernel, [("a.0", 1)], {"a": [{"0": 1}]})
    assert refused.value.code == 16746


def test_sort_key_takes_the_least_or_the_greatest_member(kernel: Kernel) -> None:
    raw = bson.encode({"a": [3, 1, 2]})
    up, down = kernel.KeyPattern([("a", 1)]), kernel.KeyPattern([("a", -1)])
    assert up.sort_key(raw) == up.encode([int32(1)])
    assert down.sort_key(raw) == down.encode([int32(3)])


@pytest.mark.parametrize("directions", [(1, 1), (-1, 1), (1, -1)])
def test_the_sort_key_is_the_least_of_the_keys(kernel: Kernel, directions: tuple[int, int]) -> None:
    rng = Random(7)
    pattern = kernel.KeyPattern(list(zip("ab", directions, strict=True)))
    values: list[Any] = [None, 1, -2.5, "x", "", "xx", b"x", {"y": 1}, {}, [1], True, bson.Int64(3)]
    for _ in range(300):
        members = rng.choices(values, k=rng.randrange(6))
        fields = (
            {"a": members, "b": rng.choice(values)} if rng.random() < 0.5 else {"b": members, "a": rng.choice("xy")}
        )
        raw = bson.encode(fields)
        try:
            least = pattern.keys(raw)[0][0]
        except CommandError:
            continue
        assert pattern.sort_key(raw) == least, fields


def test_an_empty_array_sorts_below_null(kernel: Kernel) -> None:
    pattern = kernel.KeyPattern([("a", 1)])
    ordered = [{"a": []}, {"a": None}, {"a": -1}]
    keys = [pattern.sort_key(bson.encode(thing)) for thing in ordered]
    assert keys == sorted(keys)
    assert pattern.sort_key(bson.encode({})) == keys[1]


def test_shard_key_refuses_arrays(kernel: Kernel) -> None:
    pattern = kernel.KeyPattern([("a.b", 1)])
    assert pattern.shard_key(bson.encode({"a": {"b": 1}})) == pattern.encode([int32(1)])
    for thing in ({"a": {"b": [1]}}, {"a": [{"b": 1}]}):
        with pytest.raises(CommandError) as refused:
            pattern.shard_key(bson.encode(thing))
        assert refused.value.code == Code.ShardKeyNotFound


def test_encode_of_fewer_values_is_the_beginning_of_a_key(kernel: Kernel) -> None:
    pattern = kernel.KeyPattern([("a", 1), ("b", -1)])
    whole = pattern.encode([int32(1), int32(2)])
    assert whole.startswith(pattern.encode([int32(1)]))


def test_the_quick_way_for_one_array_gives_what_the_general_way_gives(kernel: Kernel) -> None:
    rnd = Random(5)
    for _ in range(200):
        raw = document(rnd, 2)
        wrapped = kernel.document_from([("x", 0x03, raw)])
        for path in ("a", "b", "c"):
            direct = keys_or_error(kernel, [(path, 1), ("d", -1)], raw)
            nested = keys_or_error(kernel, [(f"x.{path}", 1), ("d", -1)], wrapped)
            listed = keys_or_error(
                kernel,
                [(f"x.{path}", 1), ("d", -1)],
                kernel.document_from([("x", 0x04, kernel.array_from([(3, raw)]))]),
            )
            assert direct == nested
            assert direct[0] == listed[0]


def keys_or_error(kernel: Kernel, pattern: list[tuple[str, int]], raw: bytes) -> tuple[list[bytes], bool]:
    keys, places = kernel.KeyPattern(pattern).keys(raw)
    return keys, bool(places)


@pytest.mark.parametrize(
    ("thing", "arrays"),
    [
        ({"a": {"b": 1}, "c": 2}, set()),
        ({"a": {"b": [1]}, "c": 2}, {"a.b"}),
        ({"a": {"b": 1}, "c": [2]}, {"c"}),
        ({"a": [{"b": 1}, {"b": [2, 3]}], "c": 2}, {"a", "a.b"}),
        ({"a": []}, {"a"}),
    ],
)
def test_it_is_told_where_arrays_were_met(kernel: Kernel, thing: dict[str, object], arrays: set[str]) -> None:
    paths = ["a.b", "c", "a.d"]
    _, places = kernel.KeyPattern([(path, 1) for path in paths]).keys(bson.encode(thing))

    assert kernel.keys.pattern.array_places(paths, places) == arrays
