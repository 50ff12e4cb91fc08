"""A plan never loses a document and never misorders one: every plan against a scan of everything, on random data."""

from __future__ import annotations

import bson
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson.walk import get_path
from docstore.collection.collection import Index
from docstore.collection.index.spec import parse_index_spec
from docstore.collection.read.index_access import keys_within
from docstore.errors import CommandError
from docstore.kernel.scan.index_bounds import field_end
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.plan.access import Access, CollectionScan, Eof, IdLookup, IndexScan, Merge, Plan, Union
from docstore.query.plan.plan import choose
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

PARTIAL = st.sampled_from(
    [
        {"a": {"$gt": 1}},
        {"a": {"$exists": True}},
        {"b": 1},
        {"$or": [{"a": 1}, {"b": {"$lte": 2}}]},
        {"a": {"$in": [1, 2]}},
    ]
)


@st.composite
def index_kinds(draw: st.DrawFn) -> tuple[dict[str, object], dict[str, object]]:
    """(key, options) of an index of any kind."""
    fields: dict[str, object] = dict(draw(KEY_FIELDS))
    match draw(st.sampled_from(["plain", "sparse", "partial", "hashed", "wildcard", "subtree", "projected"])):
        case "plain":
            return fields, {}
        case "sparse":
            return fields, {"sparse": True}
        case "partial":
            return fields, {"partialFilterExpression": draw(PARTIAL)}
        case "hashed":
            return {**fields, draw(st.sampled_from(sorted(fields))): "hashed"}, {}
        case "wildcard":
            return {"$**": 1}, {}
        case "subtree":
            return {draw(st.sampled_from(sorted(fields))) + ".$**": 1}, {}
        case _:
            return {"$**": 1}, {"wildcardProjection": {min(fields): draw(st.sampled_from([0, 1]))}}


KINDS = index_kinds()


def build_index(
    number: int, key: dict[str, object], options: dict[str, object], documents: list[bytes]
) -> Index | None:
    """None where the documents cannot be indexed so (arrays side by side, arrays under a hash)."""
    spec = parse_index_spec(bson.encode({"key": key, "name": f"i{number}", **options}))
    index = Index(spec, number)
    entries: list[tuple[bytes, int]] = []
    for position, raw in enumerate(documents):
        try:
            keys, expanded = index.keys(raw)
        except CommandError:
            return None
        index.array_bits |= expanded
        entries.extend((key, position) for key in keys)
    ENTRIES[index.name] = sorted(entries)
    return index


ENTRIES: dict[str, list[tuple[bytes, int]]] = {}
"""The entries of the indexes of the example that runs, by their names."""


def entries_within(scan: IndexScan) -> list[tuple[bytes, int]]:
    """(key, document) of the entries that a scan leads to, in its order."""
    entries = ENTRIES[scan.index.name]
    keys = keys_within(scan, sorted({key for key, _ in entries}))
    turned = entries[:: scan.direction]
    return [entry for key in keys for entry in turned if entry[0] == key]


def behind_fields(scan: IndexScan, count: int, key: bytes) -> bytes:
    """What of a key stands behind its first fields."""
    at = 0
    for _, direction in scan.index.fields[:count]:
        at = field_end(key, at, 0xFF if direction < 0 else 0)
    return key[at:]


def positions(access: Access, documents: list[bytes]) -> list[int]:
    """The documents that an access path yields, in its order; later occurrences of one document left out."""
    match access:
        case Eof():
            return []
        case CollectionScan(direction):
            found = list(range(len(documents)))
            return found if direction > 0 else found[::-1]
        case IndexScan(_, ranges):
            assert list(ranges) == sorted(ranges)
            return list(dict.fromkeys(entry[1] for entry in entries_within(access)))
        case Merge(branches, fixed):
            merged = [
                (behind_fields(branch, count, key), position)
                for branch, count in zip(branches, fixed, strict=True)
                for key, position in entries_within(branch)
            ]
            merged.sort(key=lambda found: found[0], reverse=branches[0].direction < 0)
            return list(dict.fromkeys(position for _, position in merged))
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
    st.lists(KINDS, min_size=1, max_size=3),
    SORTS,
)
def test_every_plan_yields_what_a_scan_yields(
    contents: list[dict[str, object]],
    condition: dict[str, object],
    patterns: list[tuple[dict[str, object], dict[str, object]]],
    order: list[tuple[str, int]],
) -> None:
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    built = [build_index(number, key, options, documents) for number, (key, options) in enumerate(patterns)]
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
@given(st.lists(DOCUMENTS, max_size=12), FILTERS, KINDS)
def test_an_index_that_is_made_to_serve_by_its_bounds_yields_what_a_scan_yields(
    contents: list[dict[str, object]], condition: dict[str, object], kind: tuple[dict[str, object], dict[str, object]]
) -> None:
    """One index, no competition: bounds that a better index would hide are tried too."""
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    index = build_index(0, *kind, documents)
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
    index = build_index(0, dict(fields), {}, documents)
    if index is None:
        return
    tree = parse_filter(bson.encode(condition))
    predicate = compile_filter(tree)

    found = run(choose(tree, [index]), documents)

    assert sorted(found) == [position for position, raw in enumerate(documents) if predicate.matches(raw)]
