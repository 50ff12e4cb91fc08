"""A diff makes one document of the other, byte for byte, compiled and interpreted."""

from __future__ import annotations

from typing import Any

import bson
from hypothesis import given
from hypothesis import strategies as st

from docstore.bson import document_from
from docstore.bson.walk import INT32, OBJECT
from docstore.collection.oplog.diff import apply_update
from tests.unit.kernel.kernels import Kernel

NAMES = st.sampled_from(["a", "b", "ab", "", "é", "0", "1"])
VALUES = st.recursive(
    st.one_of(st.integers(-2, 2), st.text("xy", max_size=3), st.none(), st.binary(max_size=2)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=5)


@given(FIELDS, FIELDS)
def test_a_diff_makes_the_other_document(kernel: Kernel, old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = bson.encode(old), bson.encode(new)
    diff = kernel.compute.differences.document_diff(before, after)
    assert diff is not None
    update = document_from([("$v", INT32, b"\2\0\0\0"), ("diff", OBJECT, diff)])
    assert apply_update(before, update) == after


def test_a_document_with_a_name_twice_has_no_diff(kernel: Kernel) -> None:
    one, two, three = (INT32, b"\1\0\0\0"), (INT32, b"\2\0\0\0"), (INT32, b"\3\0\0\0")
    twice = document_from([("a", *one), ("b", *one), ("a", *two)])
    diff = kernel.compute.differences.document_diff
    assert diff(twice, document_from([("a", *one), ("b", *two), ("a", *two)])) is None
    assert diff(twice, document_from([("a", *one), ("b", *one), ("c", *three)])) is None
    assert diff(document_from([("b", *one)]), twice) is None
    assert diff(twice, twice) == document_from([])


def test_a_name_that_stands_twice_is_seen_among_many(kernel: Kernel) -> None:
    diff = kernel.compute.differences.document_diff
    names = [f"a longer name {number}" for number in range(300)] + [f"n{number}" for number in range(300)]
    fields = [(name, INT32, b"\1\0\0\0") for name in names]
    changed = [(name, INT32, b"\2\0\0\0") for name in names[:1]] + fields[1:]
    assert diff(document_from(fields), document_from(changed)) is not None
    for twice in (names[1], names[-2]):
        more = (twice, INT32, b"\3\0\0\0")
        assert diff(document_from([*fields, more]), document_from([*changed, more])) is None


def test_arrays_are_told_by_what_operators_say(kernel: Kernel) -> None:
    diff = kernel.compute.differences.document_diff
    before, appended, filled = ({"a": [1, 2]}, {"a": [1, 2, 3, 4]}, {"a": [1, 2, None, 4]})
    assert bson.decode(diff(bson.encode(before), bson.encode(appended), {"a": True})) == {
        "sa": {"a": True, "u2": 3, "u3": 4}
    }
    assert bson.decode(diff(bson.encode(before), bson.encode(appended), {"a": False})) == {"u": {"a": [1, 2, 3, 4]}}
    assert bson.decode(diff(bson.encode(before), bson.encode(filled), {"a": {"3": False}})) == {
        "sa": {"a": True, "u3": 4}
    }
    assert bson.decode(diff(bson.encode(appended), bson.encode(before), {"a": {"0": False}})) == {
        "sa": {"a": True, "l": 2}
    }
