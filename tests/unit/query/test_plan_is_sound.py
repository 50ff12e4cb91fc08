"""A plan never loses a document and never misorders one: every plan against a scan of everything, on random data."""

from __future__ import annotations

from dataclasses import dataclass

import bson
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson.key_pattern import KeyPattern
from docstore.bson.walk import get_path
from docstore.errors import CommandError
from docstore.query.compile import compile_filter
from docstore.query.filter import parse_filter
from docstore.query.plan import Access, CollectionScan, Eof, IdLookup, IndexScan, Plan, Union, choose
from docstore.query.sort import Sort
from tests.unit.query.strategies import (
    ARRAY_DOCUMENTS,
    DOCUMENTS,
    ELEMENT_FILTERS,
    ELEMENT_KEYS,
    FILTERS,
    KEY_FIELDS,
    SORTS,
)


@dataclass
class ModelIndex:
    """An index as a sorted list of (key, position of the document)."""

    name: str
    key_pattern: KeyPattern
    unique: bool
    sparse: bool
    multikey: bool
    entries: list[tuple[bytes, int]]


def build_index(number: int, fields: list[tuple[str, int]], sparse: bool, documents: list[bytes]) -> ModelIndex | None:
    """None where the documents cannot be indexed so (arrays side by side)."""
    pattern = KeyPattern(fields)
    entries: list[tuple[bytes, int]] = []
    multikey = False
    for position, raw in enumerate(documents):
        try:
            keys, expanded = pattern.keys(raw)
        except CommandError:
            return None
        if sparse and not expanded and all(get_path(raw, path) is None for path, _ in fields):
            continue
        multikey = multikey or expanded
        entries.extend((key, position) for key in keys)
    return ModelIndex(f"i{number}", pattern, False, sparse, multikey, sorted(entries))


def positions(access: Access, documents: list[bytes]) -> list[int]:
    """The documents that an access path yields, in its order; later occurrences of one document left out."""
    match access:
        case Eof():
            return []
        case CollectionScan(direction):
            found = list(range(len(documents)))
            return found if direction > 0 else found[::-1]
        case IndexScan(index, ranges, direction, _):
            assert list(ranges) == sorted(ranges)
            assert isinstance(index, ModelIndex)
            entries = [entry for lo, hi in ranges for entry in index.entries if lo <= entry[0] < hi]
            ordered = entries if direction > 0 else entries[::-1]
            return list(dict.fromkeys(position for _, position in ordered))
        case Union(branches):
            return list(dict.fromkeys(found for branch in branches for found in positions(branch, documents)))
        case IdLookup(value):
            return [position for position, raw in enumerate(documents) if get_path(raw, "_id") == value]


def run(plan: Plan, documents: list[bytes]) -> list[int]:
    residual = None if plan.residual is None else compile_filter(plan.residual)
    return [
        position
        for position in positions(plan.access, documents)
        if residual is None or residual.matches(documents[position])
    ]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(DOCUMENTS, max_size=12),
    FILTERS,
    st.lists(st.tuples(KEY_FIELDS, st.booleans()), min_size=1, max_size=3),
    SORTS,
)
def test_every_plan_yields_what_a_scan_yields(
    contents: list[dict[str, object]],
    condition: dict[str, object],
    patterns: list[tuple[list[tuple[str, int]], bool]],
    order: list[tuple[str, int]],
) -> None:
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    built = [build_index(number, fields, sparse, documents) for number, (fields, sparse) in enumerate(patterns)]
    indexes = [index for index in built if index is not None]
    tree = parse_filter(bson.encode(condition))
    predicate = compile_filter(tree)
    expected = [position for position, raw in enumerate(documents) if predicate.matches(raw)]
    sort = Sort(tuple(order))

    plan = choose(tree, indexes, sort=sort)

    found = run(plan, documents)
    assert sorted(found) == expected
    if order and plan.provides_sort:
        keys = [sort.pattern().sort_key(documents[position]) for position in found]
        assert keys == sorted(keys)


@settings(max_examples=200, deadline=None)
@given(st.lists(DOCUMENTS, max_size=12), FILTERS, KEY_FIELDS)
def test_an_index_that_is_made_to_serve_by_its_bounds_yields_what_a_scan_yields(
    contents: list[dict[str, object]], condition: dict[str, object], fields: list[tuple[str, int]]
) -> None:
    """One index, no competition: bounds that a better index would hide are tried too."""
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    index = build_index(0, fields, False, documents)
    if index is None:
        return
    tree = parse_filter(bson.encode(condition))
    predicate = compile_filter(tree)

    found = run(choose(tree, [index]), documents)

    assert sorted(found) == [position for position, raw in enumerate(documents) if predicate.matches(raw)]


@settings(max_examples=300, deadline=None)
@given(st.lists(ARRAY_DOCUMENTS, max_size=8), ELEMENT_FILTERS, ELEMENT_KEYS)
def test_fields_of_one_array_are_bounded_together_only_for_one_element(
    contents: list[dict[str, object]], condition: dict[str, object], fields: list[tuple[str, int]]
) -> None:
    """Compound multikey indexes, where bounding one field too many would lose documents."""
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    index = build_index(0, fields, False, documents)
    if index is None:
        return
    tree = parse_filter(bson.encode(condition))
    predicate = compile_filter(tree)

    found = run(choose(tree, [index]), documents)

    assert sorted(found) == [position for position, raw in enumerate(documents) if predicate.matches(raw)]
