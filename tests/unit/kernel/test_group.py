"""Groups made on raw bytes against a plain calculation in Python."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.bson.walk import Value
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import int32


def path(kernel: Kernel, name: str) -> Any:
    return kernel.group.sources.PathSource(name)


def one(kernel: Kernel) -> Any:
    return kernel.group.sources.ConstantSource(int32(1))


def apart(position: int, state: Any, partly: bool) -> Value:
    return 0x02, b"\6\0\0\0extra\0"


def grouped(kernel: Kernel, key: Any, fields: list[tuple[str, Any]], unwind: str | None = None) -> Any:
    named = [
        (f"f{position}", kernel.group.states.STATES[name], source) for position, (name, source) in enumerate(fields)
    ]
    return kernel.group.grouping.Grouping(key, named, apart, unwind)


def results(grouping: Any) -> list[tuple[Any, list[Any]]]:
    found = [bson.decode(document) for document in grouping.documents(grouping.groups(), False)]
    return [(document.pop("_id"), list(document.values())) for document in found]


def partials(kernel: Kernel, grouping: Any) -> list[tuple[Any, list[Any]]]:
    found: list[tuple[Any, list[Any]]] = []
    for _, row in grouping.rows(grouping.keys()):
        key, *parts = kernel.values(row)
        found.append((kernel.to_python(key), [kernel.to_python(part) for part in parts]))
    return found


def test_counts_and_sums_of_unwound_arrays(kernel: Kernel) -> None:
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
    grouping = grouped(kernel, path(kernel, "tags"), [("$sum", one(kernel)), ("$sum", path(kernel, "n"))], "tags")
    grouping.add([bson.encode(thing) for thing in things[:100]])
    grouping.add([bson.encode(thing) for thing in things[100:]])
    found = {key: [count[1], total[1]] for key, (count, total) in partials(kernel, grouping)}
    assert found == dict(counts)
    assert grouping.memory > 0


def test_equal_keys_of_different_types_are_one_group_named_by_the_first(kernel: Kernel) -> None:
    grouping = grouped(kernel, path(kernel, "k"), [("$sum", one(kernel))])
    keys = [Int64(1), 1, 1.0, Decimal128("1"), None, "x"]
    grouping.add([bson.encode({"k": key}) for key in keys] + [bson.encode({})])
    found = partials(kernel, grouping)
    assert [(key, count[1]) for key, (count,) in found] == [(1, 4), (None, 2), ("x", 1)]
    assert type(found[0][0]) is Int64


def test_a_key_of_several_paths_leaves_missing_ones_out(kernel: Kernel) -> None:
    key = kernel.group.sources.DocumentSource([("x", path(kernel, "a")), ("y", path(kernel, "b.c"))])
    grouping = grouped(kernel, key, [("$sum", one(kernel))])
    grouping.add([bson.encode(thing) for thing in ({"a": 1, "b": {"c": 2}}, {"a": 1}, {"a": 1.0, "b": 5}, {})])
    assert [(found, count[1]) for found, (count,) in partials(kernel, grouping)] == [
        ({"x": 1, "y": 2}, 1),
        ({"x": 1}, 2),
        ({}, 1),
    ]


def test_accumulators_hand_out_their_parts(kernel: Kernel) -> None:
    names = ("$sum", "$avg", "$min", "$max", "$first", "$last")
    grouping = grouped(
        kernel, kernel.group.sources.ConstantSource((0x0A, b"")), [(name, path(kernel, "v")) for name in names]
    )
    grouping.add(
        [bson.encode(thing) for thing in ({}, {"v": 3}, {"v": None}, {"v": Int64(5)}, {"v": 0.5}, {"v": "x"}, {})]
    )
    [(key, found)] = partials(kernel, grouping)
    zero = Decimal128("0")
    assert key is None
    assert found == [[1, 0, 8.5, 0.0, zero], [3, 1, 0, 8.5, 0.0, zero], 0.5, "x", {"v": None}, {"v": None}]


def test_results_are_those_of_the_parts(kernel: Kernel) -> None:
    names = ("$sum", "$avg", "$min", "$max", "$first", "$last")
    grouping = grouped(kernel, path(kernel, "k"), [(name, path(kernel, "v")) for name in names])
    things = [{"k": 1, "v": 3}, {"k": 1, "v": Int64(5)}, {"k": 2, "v": 0.5}, {"k": 2, "v": 3}, {"k": 3}]
    grouping.add([bson.encode(thing) for thing in things])
    assert results(grouping) == [
        (1, [8, 4.0, 3, 5, 3, 5]),
        (2, [3.5, 1.75, 0.5, 3, 0.5, 3]),
        (3, [0, None, None, None, None, None]),
    ]
    assert [type(found[0]) for _, found in results(grouping)] == [Int64, float, int]


def test_a_sum_that_no_int_holds_is_a_long(kernel: Kernel) -> None:
    grouping = grouped(kernel, kernel.group.sources.ConstantSource(int32(0)), [("$sum", path(kernel, "v"))])
    grouping.add([bson.encode({"v": 2**31 - 1})] * 2)
    assert results(grouping) == [(0, [2**32 - 2])]


def test_what_cannot_be_added_exactly_is_kept_aside(kernel: Kernel) -> None:
    aside = [Decimal128("0.1"), float("inf"), Int64(2**62), Int64(-(2**63))]
    kept: list[list[Any]] = []
    wholes: list[int] = []

    def finish(position: int, state: Any, partly: bool) -> Value:
        kept.append([kernel.to_python(extra) for extra in state.extras])
        wholes.append(kernel.to_python(state.partial())[1])
        return int32(7)

    source = kernel.group.sources.ConstantSource(int32(0))
    grouping = kernel.group.grouping.Grouping(
        source, [("s", kernel.group.states.STATES["$sum"], path(kernel, "v"))], finish
    )
    grouping.add([bson.encode({"v": number}) for number in [1, *aside, Int64(2**61), Int64(2**61), 2]])
    assert results(grouping) == [(0, [7])]
    assert kept[0][:4] == aside
    assert wholes[0] + sum(kept[0][4:]) == 3 + 2**62


def test_doubles_are_added_with_compensation(kernel: Kernel) -> None:
    grouping = grouped(kernel, kernel.group.sources.ConstantSource(int32(0)), [("$sum", path(kernel, "v"))])
    grouping.add([bson.encode({"v": number}) for number in [1e100, 1.0, -1e100, 1.0]])
    assert results(grouping) == [(0, [2.0])]
    [(_, [(kind, whole, high, low, _)])] = partials(kernel, grouping)
    assert (kind, whole, high + low) == (1, 0, 2.0)


def test_rows_of_one_group_are_merged_to_what_all_documents_together_give(kernel: Kernel) -> None:
    rnd = Random(4)
    names = ("$sum", "$avg", "$min", "$max", "$first", "$last")
    fields = [(name, path(kernel, "v")) for name in names]
    numbers: list[Any] = [1, 2**31 - 1, Int64(7), 0.25, 2.0**40, -(2.0**40), 3, None]
    for _ in range(50):
        documents = [bson.encode({"v": rnd.choice(numbers)}) for _ in range(rnd.randrange(1, 20))]
        border = rnd.randrange(len(documents))
        together = grouped(kernel, kernel.group.sources.ConstantSource(int32(5)), fields)
        together.add(documents)
        rows: list[bytes] = []
        for part in (documents[:border], documents[border:]):
            grouping = grouped(kernel, kernel.group.sources.ConstantSource(int32(5)), fields)
            grouping.add(part)
            rows += [row for _, row in grouping.rows(grouping.keys())]
        for partly in (False, True):
            [expected] = together.documents(together.groups(), partly)
            found = bson.decode(together.merged(rows, partly))
            if partly:
                assert found.keys() == bson.decode(expected).keys()
            else:
                assert found == bson.decode(expected)


def test_rows_with_what_was_kept_aside_are_not_merged(kernel: Kernel) -> None:
    grouping = grouped(kernel, kernel.group.sources.ConstantSource(int32(0)), [("$sum", path(kernel, "v"))])
    plain = [16, Int64(1), 0.0, 0.0, Decimal128("0")]
    for position, other in ((4, Decimal128("1.5")), (1, 2.0**70), (2, float("inf")), (1, Int64(2**62))):
        parts = [*plain[:position], other, *plain[position + 1 :]]
        row = kernel.build.array_from([int32(0), kernel.from_python(parts)])
        assert grouping.merged([row], False) is None


def test_paths_inside_and_beside_the_unwound_array(kernel: Kernel) -> None:
    grouping = grouped(
        kernel, path(kernel, "a.b.k"), [("$sum", path(kernel, "a.b.n")), ("$max", path(kernel, "a.c"))], "a.b"
    )
    grouping.add([bson.encode({"a": {"b": [{"k": "x", "n": 1}, {"k": "y", "n": 2}, {"k": "x", "n": 3}, 7], "c": 9}})])
    found = [(key, total[1], highest) for key, (total, highest) in partials(kernel, grouping)]
    assert found == [("x", 4, 9), ("y", 2, 9), (None, 0, 9)]


def test_a_path_through_an_array_leads_to_the_array_of_what_is_there(kernel: Kernel) -> None:
    source = kernel.group.sources.PathSource("a.b.c")
    documents = [
        {"a": [{"b": {"c": 1}}, 7, [{"b": {"c": 2}}], {"b": [{"c": 5}, {"d": 1}, {"c": [6]}]}, {"b": 3}]},
        {"a": {"b": [{"c": {"x": 1}}]}},
        {"a": []},
        {"a": {"b": {"c": "x"}}},
        {"a": [{"b": []}]},
        {"b": 1},
    ]
    found = [source(bson.encode(document)) for document in documents]
    shown = [None if value is None else kernel.to_python(value) for value in found]
    assert shown == [[1, [5, [6]]], [{"x": 1}], [], "x", [[]], None]
    direct = kernel.group.sources.PathSource("a.b.c", through=False)
    assert [direct(bson.encode(document)) for document in documents] == [None] * 3 + [found[3]] + [None] * 2

    unwound = grouped(kernel, source, [], "a")
    unwound.add([bson.encode({"z": 1, "a": [{"b": [{"c": 5}]}, {"b": {"c": 7}}]})])
    assert [key for key, _ in results(unwound)] == [[5], 7]


def test_sources_that_need_the_unwound_document_are_refused(kernel: Kernel) -> None:
    for source in (path(kernel, "a"), kernel.group.sources.CallSource(lambda document: None)):
        with pytest.raises(ValueError, match="unwound"):
            grouped(kernel, source, [], "a.b")


def test_a_function_can_be_a_source(kernel: Kernel) -> None:
    source = kernel.group.sources.CallSource(lambda document: int32(len(document)) if len(document) > 5 else None)
    grouping = grouped(kernel, source, [("$sum", one(kernel))])
    grouping.add([kernel.EMPTY_DOCUMENT, bson.encode({"a": 1}), bson.encode({"b": 2})])
    assert [(key, count[1]) for key, (count,) in partials(kernel, grouping)] == [(None, 1), (12, 2)]


def _refuse(document: bytes) -> Any:
    raise AssertionError("no array is what these are ranked by")


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_so_many_values_are_those_of_a_sorted_list(kernel: Kernel, count: int) -> None:
    rng = Random(count)
    numbers = [rng.randrange(20) for _ in range(40)]
    states = kernel.group.states.CHOOSING_STATES
    field, position = path(kernel, "n"), path(kernel, "i")
    ranked = kernel.group.chosen.RankedSource([(field, -1)], position, _refuse)
    wanted = [
        ("first", "$firstN", field, numbers[:count]),
        ("last", "$lastN", field, numbers[-count:]),
        ("least", "$minN", field, sorted(numbers)[:count]),
        ("greatest", "$maxN", field, sorted(numbers, reverse=True)[:count]),
        ("top", "$topN", ranked, sorted(range(40), key=lambda i: -numbers[i])[:count]),
        ("bottom", "$bottomN", ranked, sorted(range(40), key=lambda i: -numbers[i])[-count:]),
    ]
    fields = [(name, lambda state=states[named]: state(count), source) for name, named, source, _ in wanted]
    everything = kernel.group.sources.ConstantSource(int32(0))
    documents = [bson.encode({"i": i, "n": number}) for i, number in enumerate(numbers)]

    grouping, second = (kernel.group.grouping.Grouping(everything, fields, apart) for _ in range(2))
    grouping.add(documents)
    assert results(grouping) == [(0, [values for *_, values in wanted])]

    # The parts of two halves make the same.
    halves = [kernel.group.grouping.Grouping(everything, fields, apart) for _ in range(2)]
    halves[0].add(documents[:15])
    halves[1].add(documents[15:])
    rows = [row for half in halves for _, row in half.rows(half.keys())]
    assert bson.decode(second.merged(rows, False)) == {"_id": 0} | {name: values for name, *_, values in wanted}
