"""Groups of sorted rows: what is kept of documents, and what is made of that."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from tests.unit.kernel.kernels import Kernel

DOCUMENTS = [
    bson.encode(document)
    for document in (
        {"k": 2, "v": 10, "t": "b"},
        {"k": 1, "v": 2.5},
        {"k": "text", "v": None},
        {"v": 7, "t": "a"},
        {"k": 2.0, "t": "c"},
        {"k": [1, 2], "v": {"a": 1}},
    )
]


class Collected:
    """An accumulator of the caller's."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def add(self, value: Any) -> int:
        self.values.append(value)
        return 0


def rows_of(kernel: Kernel, *paths: str, **more: Any) -> Any:
    sources = kernel.group.sources
    return kernel.group.rows.Rows(
        sources.PathSource("k"),
        [sources.PathSource(path) for path in paths] + [sources.ConstantSource((0x10, b"\1\0\0\0"))],
        **more,
    )


def test_rows_sort_by_the_key_and_name_it(kernel: Kernel) -> None:
    pairs = sorted(rows_of(kernel).pairs(DOCUMENTS))
    codes = [kernel.group.rows.sorted_value(row)[0] for _, row in pairs]
    assert codes == [0x0A, 0x10, 0x01, 0x10, 0x02, 0x04] or codes == [0x0A, 0x10, 0x10, 0x01, 0x02, 0x04]
    assert all(len(row) < len(document) for _, row in pairs for document in DOCUMENTS[:1])


def test_accumulators_are_given_what_stands_in_rows(kernel: Kernel) -> None:
    rows = rows_of(kernel, "v", "v", "k", "t")
    states = [Collected() for _ in range(5)]
    group = kernel.group.rows.RowGroup(rows, states)
    pairs = rows.pairs(DOCUMENTS)
    assert group.take(pairs, 0, len(pairs)) == len(pairs)

    def at(name: str) -> list[Any]:
        return [kernel.get_field(document, name) for document in DOCUMENTS]

    assert [state.values for state in states] == [at("v"), at("v"), at("k"), at("t"), [(0x10, b"\1\0\0\0")] * 6]


def test_the_states_of_the_kernel_take_rows_in(kernel: Kernel) -> None:
    rows = rows_of(kernel, "v", "t")
    made = [kernel.group.states.STATES[name]() for name in ("$sum", "$max", "$sum")]
    group = kernel.group.rows.RowGroup(rows, made)
    pairs = rows.pairs(DOCUMENTS)
    group.take(pairs, 0, len(pairs))
    assert [bson.decode(kernel.document_from([("v", *state.result())]))["v"] for state in made] == [19.5, "c", 6]


def test_a_share_ends_behind_what_sorts_as_its_last_row(kernel: Kernel) -> None:
    rows = rows_of(kernel)
    pairs = sorted(rows.pairs([bson.encode({"k": key}) for key in (1, 2, 2, 2, 3)]))
    group = kernel.group.rows.RowGroup(rows, [Collected()])
    assert group.take(pairs, 0, 2) == 4
    assert group.count == 4
    assert kernel.group.rows.sorted_value(group.first)[1][0] == 1
    assert kernel.group.rows.sorted_value(group.last)[1][0] == 2
    assert group.take_below(pairs, 4, pairs[4][0]) == 4
    assert group.take_below(pairs, 4, pairs[4][0] + b"\0") == 5


def test_every_value_is_shown_to_a_check(kernel: Kernel) -> None:
    seen: list[Any] = []
    rows_of(kernel, check=seen.append).pairs(DOCUMENTS)
    assert seen == [kernel.get_field(document, "k") or (0x0A, b"") for document in DOCUMENTS]

    def refuse(value: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        rows_of(kernel, check=refuse).pairs(DOCUMENTS)


def test_keys_may_be_the_callers(kernel: Kernel) -> None:
    found = rows_of(kernel, key_of=lambda value: b"<" + value[1] + b">").pairs(DOCUMENTS[:1])
    assert found[0][0] == b"<\2\0\0\0>"
