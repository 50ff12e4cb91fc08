"""Plans run: the same documents whatever the access path, in bounded batches, from one state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from docstore.bson import allowance, from_python
from docstore.collection.collection import Collection
from docstore.collection.read.counting import open_count
from docstore.collection.read.execute import open_find
from docstore.collection.read.matching import find_matches
from docstore.collection.read.planning import plan_query, usable_indexes
from docstore.collection.store import Store
from docstore.commands.supervision import SUPERVISION
from docstore.errors import CommandError
from docstore.kernel.match.path_predicates import Compare
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from docstore.query.find import FindQuery, Hint
from docstore.query.pausing import PAUSED, PAUSING
from docstore.query.plan.access import CollectionScan, IdLookup, IndexScan, Union
from docstore.query.projection.parse import parse_projection
from docstore.query.sort import Sort
from docstore.storage import Reader
from tests.unit.collection.building import check, doc, insert, make, plain, read, remove, spec, store_on, update

NEVER = float("inf")


def tree(**fields: Any) -> Filter:
    return parse_filter(bson.encode(fields))


def parsed(fields: dict[str, Any]) -> Filter:
    return parse_filter(bson.encode(fields))


def query(fields: dict[str, Any] | None = None, *, sort: tuple[tuple[str, int], ...] = (), **rest: Any) -> FindQuery:
    return FindQuery(filter=parsed(fields or {}), sort=Sort(sort), **rest)


def no_clock() -> float:
    return 0.0


def find(coll: Collection, wanted: FindQuery, reader: Reader, *, batch: int = 1000) -> list[dict[str, Any]]:
    source = open_find(coll, wanted, reader, clock=no_clock)
    found: list[bytes] = []
    while True:
        step = source.next_batch(batch, 1 << 24, NEVER)
        assert len(step.documents) <= batch
        found += step.documents
        if step.exhausted:
            return [plain(raw) for raw in found]


def people(*, indexed: bool = True) -> tuple[Store, Collection]:
    store = store_on()
    indexes = (spec(("x", 1)), spec(("t", 1), ("x", -1)), spec(("u", 1), unique=True, sparse=True)) if indexed else ()
    documents = [doc(n, x=n % 5, t=[f"t{n % 3}", f"t{n % 4}"], **({"u": n} if n % 2 else {})) for n in range(40)]
    return store, make(store, "db.c", *documents, indexes=indexes)


VALUES = st.one_of(st.integers(0, 4), st.none(), st.lists(st.integers(0, 4), max_size=3), st.sampled_from([1.0, "s"]))
DOCUMENTS = st.lists(st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2), max_size=12)
CONDITIONS = st.one_of(
    VALUES,
    st.builds(lambda op, value: {op: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne", "$eq"]), VALUES),
    st.builds(lambda values: {"$in": values}, st.lists(VALUES, max_size=3)),
    st.builds(lambda low, high: {"$gte": low, "$lt": high}, st.integers(0, 4), st.integers(0, 5)),
    st.builds(lambda flag: {"$exists": flag}, st.booleans()),
)
FILTERS = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "_id"]), CONDITIONS, max_size=2),
    st.builds(lambda one, other: {"$or": [{"a": one}, {"b": other}]}, CONDITIONS, CONDITIONS),
)
SORTS = st.sampled_from([(), (("a", 1),), (("a", -1), ("b", 1)), (("_id", -1),), (("b", 1), ("_id", 1))])
INDEXES = st.lists(
    st.sampled_from([
        spec(("a", 1)), spec(("a", -1), ("b", 1)), spec(("b", 1), ("a", 1), sparse=True), spec(("b", -1)),
    ]),
    max_size=3, unique_by=lambda made: made.name,
)  # fmt: skip


@given(DOCUMENTS, FILTERS, SORTS, INDEXES, st.integers(0, 3), st.integers(0, 4), st.integers(1, 5))
@settings(max_examples=400, deadline=None)
def test_every_access_path_finds_the_same(
    documents: list[dict[str, Any]],
    fields: dict[str, Any],
    sort: tuple[tuple[str, int], ...],
    indexes: list[Any],
    skip: int,
    limit: int,
    batch: int,
) -> None:
    store = store_on(oplog=False)
    plain_coll, indexed = make(store, "db.plain"), make(store, "db.indexed", indexes=tuple(indexes))
    kept = []
    for n, found in enumerate(documents):
        raw = bson.encode({"_id": n % 3 * 10 + n, **found})
        try:
            insert(store, indexed, raw)
        except CommandError:
            continue
        insert(store, plain_coll, raw)
        kept.append(raw)
    wanted = FindQuery(filter=parsed(fields), sort=Sort(sort), skip=skip, limit=limit)
    # Arrays side by side have no sort key.
    assume(not any(isinstance(found.get("a"), list) and isinstance(found.get("b"), list) for found in map(plain, kept)))
    matching = [raw for raw in kept if compile_filter(wanted.filter).matches(raw)]
    if sort:
        matching.sort(key=Sort(sort).pattern().sort_key)
    cut = matching[skip : skip + limit] if limit else matching[skip:]
    scanned = find(plain_coll, wanted, store.engine, batch=batch)
    looked_up = find(indexed, wanted, store.engine, batch=batch)
    if sort:
        key = Sort(sort).pattern().sort_key
        for result in (scanned, looked_up):
            assert [key(bson.encode(found)) for found in result] == [key(raw) for raw in cut]
    if not limit and not skip:
        # In which order equal documents come is up to the access path.
        for result in (scanned, looked_up):
            assert sorted(map(repr, result)) == sorted(repr(plain(raw)) for raw in cut)
    assert len(looked_up) == len(scanned) == len(cut)
    for coll in (plain_coll, indexed):
        counting = open_count(coll, FindQuery(filter=wanted.filter), store.engine, clock=no_clock)
        assert counting.advance(NEVER)
        assert counting.count == len(matching)
        matched = [found[0] for found in find_matches(coll, wanted.filter, store.engine, clock=no_clock) if found]
        assert len(set(matched)) == len(matched) == len(matching)


@pytest.mark.parametrize(("fields", "access"), [
    ({"_id": 3}, IdLookup),
    ({"x": 3}, IndexScan),
    ({"$or": [{"x": 1}, {"u": 3}]}, Union),
    ({"y": 1}, CollectionScan),
])  # fmt: skip
def test_the_access_path_is_the_planners(fields: dict[str, Any], access: type) -> None:
    store, coll = people()
    assert isinstance(plan_query(coll, FindQuery(filter=parsed(fields))).access, access)
    expected = [
        found for found in read(coll, store.engine) if compile_filter(parsed(fields)).matches(bson.encode(found))
    ]
    assert sorted(map(repr, find(coll, query(fields), store.engine))) == sorted(map(repr, expected))


@pytest.mark.parametrize("branches", [
    [{"_id": 1}, {"x": 1}], [{"x": 1}, {"_id": 1}], [{"_id": 1, "x": 1}, {"_id": 1}], [{"_id": 1}, {"_id": {"$lt": 4}}],
])  # fmt: skip
def test_a_document_that_is_looked_up_by_one_branch_and_found_by_another_is_given_once(
    branches: list[dict[str, Any]],
) -> None:
    store, coll = people()
    found = [each["_id"] for each in find(coll, query({"$or": branches}), store.engine)]
    assert len(set(found)) == len(found)
    assert 1 in found
    counting = open_count(coll, query({"$or": branches}), store.engine, clock=no_clock)
    assert counting.advance(NEVER)
    assert counting.count == len(found)


def test_hidden_indexes_are_not_used() -> None:
    _, coll = people()
    index = coll.indexes["x_1"]
    index.spec = index.spec.with_hidden(True)
    assert isinstance(plan_query(coll, FindQuery(filter=tree(x=3))).access, CollectionScan)
    with pytest.raises(CommandError, match="hint"):
        plan_query(coll, FindQuery(filter=tree(x=3), hint=Hint(name="x_1")))


def test_no_collection_holds_nothing() -> None:
    source = open_find(None, query({"x": 1}), store_on().engine, clock=no_clock)
    assert source.next_batch(10, 1000, NEVER).exhausted
    counting = open_count(None, query(), store_on().engine, clock=no_clock)
    assert counting.advance(NEVER)
    assert counting.count == 0


def test_batches_are_bounded_by_bytes_but_hold_one_document() -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(n, x="y" * 100) for n in range(10)))
    one = len(doc(0, x="y" * 100))
    source = open_find(coll, query(), store.engine, clock=no_clock)
    sizes = []
    while True:
        step = source.next_batch(100, one * 3 + 10, NEVER)
        sizes.append(len(step.documents))
        assert sum(map(len, step.documents)) <= one * 3 + 10
        if step.exhausted:
            break
    assert sizes == [3, 3, 3, 1]
    source = open_find(coll, query(), store.engine, clock=no_clock)
    assert len(source.next_batch(100, 1, NEVER).documents) == 1


@pytest.mark.parametrize("sort", [(), (("x", 1),)])
def test_a_batch_ends_with_its_time_and_goes_on_later(sort: tuple[tuple[str, int], ...]) -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(n, x=-n) for n in range(1000)))
    times = iter(range(1_000_000))
    source = open_find(
        coll, query({"x": {"$lt": 0}}, sort=sort, skip=10), store.engine, clock=lambda: float(next(times))
    )
    found: list[bytes] = []
    steps = 0
    while True:
        step = source.next_batch(10_000, 1 << 24, next(times) + 2.0)
        found += step.documents
        steps += 1
        if step.exhausted:
            break
    assert len(found) == 989
    assert steps > 3
    assert [plain(raw)["_id"] for raw in found] == (list(range(11, 1000)) if not sort else list(range(989, 0, -1)))


def test_a_source_over_a_snapshot_shows_one_state() -> None:
    store, coll = people()
    snapshot = store.engine.snapshot()
    sources = [
        open_find(coll, query(fields), snapshot, clock=no_clock)
        for fields in ({}, {"x": 3}, {"x": {"$in": [1, 3]}}, {"t": "t1"})
    ]
    before = [
        len(find(coll, query(fields), store.engine)) for fields in ({}, {"x": 3}, {"x": {"$in": [1, 3]}}, {"t": "t1"})
    ]
    for n in range(20):
        remove(store, coll, n)
    for n in range(20, 30):
        update(store, coll, doc(n, x=3, t="t1"))
    insert(store, coll, *(doc(n, x=3, t="t1") for n in range(100, 120)))
    found = [source.next_batch(1000, 1 << 24, NEVER) for source in sources]
    assert [len(step.documents) for step in found] == before
    assert all(step.exhausted for step in found)
    for source in sources:
        source.close()
    snapshot.close()


@pytest.mark.parametrize("fields", [{}, {"x": {"$gte": 0}}, {"x": {"$in": list(range(200))}}])
def test_a_multi_update_meets_no_document_twice(fields: dict[str, Any]) -> None:
    """Each update moves the document to where the search is still to come."""
    store, coll = people()
    met: list[int] = []
    for found in find_matches(coll, parsed(fields), store.engine, clock=no_clock):
        if found is None:
            continue
        before = plain(found[1])
        met.append(before["_id"])
        update(store, coll, bson.encode({**before, "x": before["x"] + 7}))
    assert sorted(met) == list(range(40))
    check(store)


def test_matches_read_the_pending_changes_of_a_unit() -> None:
    store, coll = people()
    with store.unit() as unit:
        unit.insert(coll, doc(100, x=3))
        found = coll.by_id(unit, from_python(3))
        assert found is not None
        unit.remove(coll, *found)
        ids = [plain(match[1])["_id"] for match in find_matches(coll, tree(x=3), unit, clock=no_clock) if match]
    assert ids == [8, 13, 18, 23, 28, 33, 38, 100]


def test_matches_come_in_the_order_asked_for() -> None:
    store, coll = people(indexed=False)
    found = find_matches(coll, tree(), store.engine, sort=Sort((("x", -1), ("_id", -1))), clock=no_clock)
    ids = [plain(match[1])["_id"] for match in found if match]
    assert ids == sorted(range(40), key=lambda n: (-(n % 5), -n))


def test_a_long_search_pauses_now_and_then() -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(n) for n in range(1000)))
    times = iter(range(1_000_000))

    def matches() -> Iterator[Any]:
        return find_matches(coll, tree(missing=1), store.engine, clock=lambda: next(times) / 1000)

    assert set(matches()) == {None}


def test_owned_is_one_more_condition() -> None:
    store, coll = people()
    owned = Compare("_id", "lt", from_python(10))
    source = open_find(coll, query({"x": 3}), store.engine, owned=owned, clock=no_clock)
    assert [plain(raw)["_id"] for raw in source.next_batch(100, 1 << 20, NEVER).documents] == [3, 8]
    counting = open_count(coll, query(), store.engine, owned=owned, clock=no_clock)
    assert counting.advance(NEVER)
    assert counting.count == 10


def test_counts_observe_skip_and_limit() -> None:
    store, coll = people()
    for fields, total in (({}, 40), ({"x": 3}, 8), ({"y": 1}, 0)):
        for skip, limit, expected in ((0, 0, total), (3, 0, max(0, total - 3)), (3, 2, min(2, max(0, total - 3)))):
            counting = open_count(coll, query(fields, skip=skip, limit=limit), store.engine, clock=no_clock)
            assert counting.advance(NEVER)
            assert counting.count == expected


def test_projections_apply_to_what_is_returned() -> None:
    store, coll = people()
    wanted = query({"x": 3}, projection=parse_projection(bson.encode({"x": 1})), limit=2)
    assert find(coll, wanted, store.engine) == [{"_id": 3, "x": 3}, {"_id": 8, "x": 3}]


def test_explain_counts_what_was_looked_at() -> None:
    store, coll = people()
    expected = {
        "x_1": (query({"x": 3, "u": {"$exists": True}}), (8, 8, 4, False)),
        "_id": (query({"_id": 3}), (1, 1, 1, False)),
        "scan": (query({"y": 1}, sort=(("x", 1), ("y", 1))), (0, 40, 0, True)),
    }
    for wanted, counts in expected.values():
        source = open_find(coll, wanted, store.engine, clock=no_clock, exact=True)
        source.next_batch(1000, 1 << 24, NEVER)
        stats = source.plan_stats()
        assert (stats.keys_examined, stats.docs_examined, stats.returned, stats.sorts) == counts


@pytest.mark.parametrize("few", ["x", "y"])
def test_of_two_indexes_the_one_with_fewer_entries_is_read(few: str) -> None:
    """The forms of the bounds are the same: only a look at the entries tells."""
    many = "y" if few == "x" else "x"
    documents = [doc(number, **{few: number, many: number % 2}) for number in range(200)]
    store = store_on()
    coll = make(store, "db.c", *documents, indexes=(spec(("x", 1)), spec(("y", 1))))

    plan = plan_query(coll, FindQuery(filter=parsed({few: {"$lt": 3}, many: {"$lt": 3}})), store.engine)

    assert isinstance(plan.access, IndexScan)
    assert plan.access.index.name == f"{few}_1"
    assert [each.access.index.name for each in plan.rejected if isinstance(each.access, IndexScan)] == [f"{many}_1"]


def test_a_sorted_search_whose_first_documents_are_passed_over_goes_on() -> None:
    store = store_on()
    coll = make(store, "db.c")
    insert(store, coll, *(doc(number, x=(number * 7) % 100) for number in range(100)))
    found = find_matches(coll, tree(), store.engine, sort=Sort((("x", 1),)), clock=no_clock)
    assert [plain(match[1])["x"] for match in found if match] == list(range(100))


def test_others_run_while_a_long_filter_is_planned_and_what_they_do_to_indexes_changes_nothing() -> None:
    store, coll = people()
    wanted = query({"x": 3, "$nor": [{"y": n} for n in range(5_000)]})
    expected = find(coll, wanted, store.engine)
    indexes = usable_indexes(coll)
    levels: list[int] = []
    kept = dict(coll.indexes)

    def look(spent: int) -> None:
        levels.append(PAUSING.level)
        for name in [name for name in coll.indexes if name != "_id_"]:
            del coll.indexes[name]

    allowance.install(look)
    try:
        source = open_find(coll, wanted, store.engine, clock=no_clock, indexes=indexes)
        found = source.next_batch(1000, 1 << 24, NEVER).documents
    finally:
        allowance.install(SUPERVISION.look)
        coll.indexes.update(kept)

    assert [plain(raw) for raw in found] == expected
    assert PAUSED in levels
    assert PAUSING.level == 0
    assert isinstance(source.plan_stats().plan.access, IndexScan)
