"""Updates of the oplog, made and applied."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson import ARRAY, INT32, array_from, document_from
from docstore.collection.oplog.diff import (
    REPLACED,
    WHOLE_FIELDS,
    Paths,
    apply_update,
    is_replacement,
    make_update,
)
from tests.unit.collection.building import doc, plain

NAMES = st.sampled_from(["a", "b", "c", "d", "u", "i", "s", "sa", "", "0"])
SCALARS = st.one_of(st.integers(-3, 3), st.text("xyz", max_size=40), st.none(), st.booleans(), st.just(-0.0))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=6)


def document(fields: dict[str, Any]) -> bytes:
    return bson.encode({"_id": 1, **fields})


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    """Versions of one document, each a few changes away from the one before."""
    fields = draw(FIELDS)
    versions = [document(fields)]
    for _ in range(draw(st.integers(1, 5))):
        fields = dict(fields)
        for name in draw(st.lists(NAMES, max_size=3)):
            if draw(st.booleans()):
                fields.pop(name, None)
            if draw(st.booleans()):
                fields[name] = draw(VALUES)
        filler = draw(st.sampled_from(["", "x" * 200]))
        versions.append(document({"filler": filler, **fields}))
    return versions


@given(FIELDS, FIELDS)
def test_an_update_makes_the_other_document_byte_for_byte(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = document(old), document(new)
    update = make_update(before, after)
    assert apply_update(before, update) == after
    assert len(update) <= len(after)


@given(histories())
def test_small_changes_of_large_documents_are_exact(versions: list[bytes]) -> None:
    for before, after in pairwise(versions):
        assert apply_update(before, make_update(before, after)) == after


@given(histories(), st.data())
@settings(max_examples=300)
def test_replaying_from_any_earlier_update_ends_in_the_same_document(
    versions: list[bytes], data: st.DataObject
) -> None:
    updates = [make_update(before, after) for before, after in pairwise(versions)]
    state = data.draw(st.sampled_from(versions))
    start = data.draw(st.integers(0, versions.index(state)))
    for update in updates[start:]:
        state = apply_update(state, update)
    assert state == versions[-1]


@given(FIELDS, histories())
def test_an_update_of_another_document_does_not_fail(fields: dict[str, Any], versions: list[bytes]) -> None:
    state = document(fields)
    for before, after in pairwise(versions):
        state = apply_update(state, make_update(before, after))
        bson.decode(state)


def diff(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The diff between two documents that are large enough not to be replaced."""
    kept = {"kept": "x" * 300}
    update = make_update(document(kept | before), document(kept | after))
    made = plain(update)
    assert list(made) == ["$v", "diff"]
    assert made["$v"] == 2
    return made["diff"]


def test_the_shape_is_the_references() -> None:
    """As in the oplog of a 6.0.5 server; where a part is shorter whole, as `a` here, it is whole."""
    assert diff({"x": 1}, {"x": 2}) == {"u": {"x": 2}}
    assert diff({"x": 2, "a": {"b": 1}, "arr": [1, 2, 3]}, {"a": {"b": 5, "c": 6}, "arr": [1, 2, 3, 4]}) == {
        "d": {"x": False},
        "u": {"a": {"b": 5, "c": 6}},
        "sarr": {"a": True, "u3": 4},
    }
    long = {"r": "y" * 64}
    assert diff({"o": {"p": {"q": 1, **long}}}, {"o": {"p": {"q": 2, **long}}}) == {"so": {"sp": {"u": {"q": 2}}}}
    assert diff({}, {"fam": 2}) == {"i": {"fam": 2}}
    assert diff({"l": ["x" * 50, 2, 3]}, {"l": ["x" * 50, 2]}) == {"sl": {"a": True, "l": 2}}


def test_moved_fields_are_put_at_the_end() -> None:
    assert diff({"a": 1, "b": 2}, {"b": 2, "a": 1}) == {"i": {"a": 1}}


def test_a_changed_type_is_a_change() -> None:
    assert diff({"a": 1}, {"a": 1.0}) == {"u": {"a": 1.0}}


def test_a_short_document_is_replaced() -> None:
    after = doc(1, z=1)
    assert make_update(doc(1, a=1, b=2), after) == after
    assert is_replacement(after)
    assert not is_replacement(make_update(document({"k": "x" * 99, "a": 1}), document({"k": "x" * 99, "a": 2})))


def test_a_document_with_a_field_named_v_is_a_replacement() -> None:
    after = bson.encode({"_id": 1, "$v": 2, "diff": {}})
    assert apply_update(doc(1), after) == after


@pytest.mark.parametrize("twice", ["before", "after"])
def test_names_that_stand_twice_are_replaced_whole(twice: str) -> None:
    identity = ("_id", INT32, b"\1\0\0\0")
    filler = ("kept", *_string("x" * 100))
    double = document_from([identity, filler, ("a", INT32, b"\1\0\0\0"), ("a", INT32, b"\2\0\0\0")])
    single = document_from([identity, filler, ("a", INT32, b"\3\0\0\0")])
    before, after = (double, single) if twice == "before" else (single, double)
    assert make_update(before, after) == after
    assert make_update(double, double[:-5] + b"\7\0\0\0\0") == double[:-5] + b"\7\0\0\0\0"


def test_an_array_that_is_numbered_strangely_keeps_its_numbers() -> None:
    long = _string("x" * 100)
    odd = (ARRAY, document_from([("7", *long), ("7", INT32, b"\1\0\0\0")]))
    even = (ARRAY, array_from([long, (INT32, b"\2\0\0\0")]))
    for one, other in ((odd, even), (even, odd)):
        before = document_from([("_id", INT32, b"\1\0\0\0"), ("kept", *_string("y" * 300)), ("a", *one)])
        after = document_from([("_id", INT32, b"\1\0\0\0"), ("kept", *_string("y" * 300)), ("a", *other)])
        assert apply_update(before, make_update(before, after)) == after


def _string(text: str) -> tuple[int, bytes]:
    encoded = text.encode() + b"\0"
    return 2, len(encoded).to_bytes(4, "little") + encoded


@pytest.mark.parametrize(
    ("before", "after", "paths", "diff"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2, "c": 2}}, {"a": {"b": False}}, {"sa": {"u": {"b": 2}}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2, "c": 2}}, {"a": False}, {"u": {"a": {"b": 2, "c": 2}}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": False}}, {"sa": {"d": {"b": False}}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": True}, {"sl": {"a": True, "u1": 2}}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": False}, {"u": {"l": [1, 2]}}),
        ({"l": [1, 2]}, {"l": [0, 1, 2]}, {"l": True}, {"u": {"l": [0, 1, 2]}}),
        ({"l": [1]}, {"l": [1, None, None, 4]}, {"l": {"3": False}}, {"sl": {"a": True, "u3": 4}}),
        ({"l": [{"x": 1}, {"x": 2}]}, {"l": [{"x": 1}, {"x": 3}]}, {"l": {"$": {"x": False}}},
         {"sl": {"a": True, "s1": {"u": {"x": 3}}}}),
        ({"n": 1}, {"n": 2}, WHOLE_FIELDS, {"u": {"n": 2}}),
    ],
)  # fmt: skip
def test_what_operators_changed_is_told_by_their_paths(
    before: dict[str, Any], after: dict[str, Any], paths: Paths, diff: dict[str, Any]
) -> None:
    """As a real mongod 6.0.5 logs it, however short the documents are."""
    o = make_update(bson.encode(before), bson.encode(after), paths)
    assert bson.decode(o) == {"$v": 2, "diff": diff}
    assert apply_update(bson.encode(before), o) == bson.encode(after)


def test_a_replacement_is_told_as_a_whole() -> None:
    before, after = {"_id": 1, "a": "x" * 100, "n": 1}, {"_id": 1, "a": "x" * 100, "n": 2}
    assert make_update(bson.encode(before), bson.encode(after), REPLACED) == bson.encode(after)
