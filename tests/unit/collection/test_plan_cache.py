"""Plans that a collection keeps: used for what has their shape, forgotten when they are no longer the right ones."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import bson
from hypothesis import given
from hypothesis import strategies as st

from docstore.collection.collection import Collection
from docstore.collection.read.counting import open_count
from docstore.collection.read.execute import Source, open_find
from docstore.collection.read.matching import find_matches
from docstore.collection.read.planning import plan_query
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.find import FindQuery
from docstore.query.plan.access import IndexScan, Plan
from docstore.query.sort import Sort
from tests.unit.collection.building import doc, insert, make, plain, spec, store_on

NEVER = float("inf")
MANY = 300

Order = tuple[tuple[str, int], ...]


def query(fields: dict[str, Any], sort: Order = (), **rest: Any) -> FindQuery:
    return FindQuery(filter=parse_filter(bson.encode(fields)), sort=Sort(sort), **rest)


def find(store: Store, coll: Collection, wanted: FindQuery, *, slow: bool = False) -> list[Any]:
    """The `_id` of what is found. `slow`: every look at the clock ends a step."""
    ticks = itertools.count()
    source = open_find(coll, wanted, store.engine, clock=lambda: next(ticks) if slow else 0)
    found: list[bytes] = []
    while True:
        step = source.next_batch(50, 1 << 24, next(ticks) if slow else NEVER)
        found += step.documents
        if step.exhausted:
            return [plain(raw)["_id"] for raw in found]


def index_of(plan: Plan) -> str:
    assert isinstance(plan.access, IndexScan)
    return plan.access.index.name


def planned(store: Store, coll: Collection, wanted: FindQuery, *, kept: bool = True) -> str:
    return index_of(plan_query(coll, FindQuery(filter=wanted.filter, sort=wanted.sort), store.engine, kept=kept))


def skewed() -> tuple[Store, Collection]:
    """Of the documents with x: 0 there are many and each has a y of its own, and the other way round."""
    store = store_on()
    documents = [doc(number, x=0, y=number + 1) for number in range(MANY)]
    documents += [doc(MANY + number, x=number + 1, y=0) for number in range(MANY)]
    return store, make(store, "db.c", *documents, indexes=(spec(("x", 1)), spec(("y", 1))))


def test_one_plan_is_kept_for_all_values_of_a_shape() -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(number, x=number % 7) for number in range(50)), indexes=(spec(("x", 1)),))
    for value in range(7):
        assert find(store, coll, query({"x": value})) == [number for number in range(50) if number % 7 == value]
    assert len(coll.plans) == 1
    assert find(store, coll, query({"x": "3"})) == []
    assert find(store, coll, query({"x": {"$gt": 4, "$lt": 6}})) == find(store, coll, query({"x": 5}))
    assert find(store, coll, query({"x": {"$gt": 6, "$lt": 4}})) == []
    assert len(coll.plans) == 3


def test_a_plan_is_forgotten_when_the_indexes_change() -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(number, x=number, y=1) for number in range(50)), indexes=(spec(("y", 1)),))
    wanted = query({"y": 1, "x": 7})
    assert planned(store, coll, wanted) == "y_1"
    assert len(coll.plans) == 1
    build = store.build_index(coll, [spec(("x", 1), ("y", 1))])
    assert planned(store, coll, wanted) == "y_1"
    assert build.step(NEVER)
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
    assert planned(store, coll, wanted) == "x_1_y_1"
    with store.unit() as unit:
        store.drop_index(unit, coll, "x_1_y_1")
        unit.commit()
    assert planned(store, coll, wanted) == "y_1"
    assert find(store, coll, wanted) == [7]


def test_a_plan_made_before_there_were_arrays_is_not_used_after_it() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=5), indexes=(spec(("x", 1)),))
    between = query({"x": {"$gt": 3, "$lt": 7}})
    in_order = query({"x": {"$gte": 3}}, sort=(("x", 1),))
    assert (find(store, coll, between), find(store, coll, in_order)) == ([1], [1])
    insert(store, coll, doc(2, x=[1, 9]), doc(3, x=[8, 4]))
    assert sorted(find(store, coll, between)) == [1, 2, 3]
    assert find(store, coll, in_order) == [2, 3, 1]


def test_the_best_of_several_is_kept_until_it_finds_too_little() -> None:
    store, coll = skewed()
    assert find(store, coll, query({"x": 0, "y": 5})) == [4]
    assert planned(store, coll, query({"x": 0, "y": 6})) == "y_1"
    assert planned(store, coll, query({"x": 6, "y": 0})) == "y_1", "kept"
    assert planned(store, coll, query({"x": 6, "y": 0}), kept=False) == "x_1"
    assert find(store, coll, query({"x": 6, "y": 0})) == [MANY + 5]
    assert planned(store, coll, query({"x": 6, "y": 0})) == "x_1", "it took far too long"


def test_a_query_whose_kept_plan_finds_too_little_begins_again_with_another() -> None:
    for sort in ((), (("z", 1),)):
        store, coll = skewed()
        assert find(store, coll, query({"x": 0, "y": 5}, sort)) == [4]
        assert find(store, coll, query({"x": 6, "y": 0}, sort), slow=True) == [MANY + 5]
        assert planned(store, coll, query({"x": 6, "y": 0}, sort)) == "x_1"


def test_a_write_whose_kept_plan_finds_too_little_has_it_forgotten() -> None:
    store, coll = skewed()

    def matches(fields: dict[str, Any]) -> list[Any]:
        found = find_matches(coll, parse_filter(bson.encode(fields)), store.engine, clock=lambda: 0.0)
        return [plain(match[1])["_id"] for match in found if match is not None]

    assert matches({"x": 0, "y": 5}) == [4]
    assert planned(store, coll, query({"x": 6, "y": 0})) == "y_1"
    assert matches({"x": 6, "y": 0}) == [MANY + 5]
    assert planned(store, coll, query({"x": 6, "y": 0})) == "x_1"


def test_a_count_keeps_a_plan_of_its_own() -> None:
    store, coll = skewed()

    def count(fields: dict[str, Any]) -> int:
        counting = open_count(coll, query(fields), store.engine, clock=lambda: 0.0)
        assert counting.advance(NEVER)
        return counting.count

    assert [count({"x": value}) for value in (0, 1, 2, -1)] == [MANY, 1, 1, 0]
    assert [count({"x": 0, "y": {"$lt": value}}) for value in (1, 5, 1000)] == [0, 4, MANY]
    assert find(store, coll, query({"x": 2})) == [MANY + 1]


def test_so_many_plans_are_kept_and_no_more() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    for number in range(500):
        assert find(store, coll, query({"x": 1, f"other{number}": 1})) == []
    assert len(coll.plans) == 200


VALUES = st.one_of(st.integers(0, 4), st.sampled_from([1.5, "s", "t"]), st.lists(st.integers(0, 4), max_size=3))
CONDITIONS = st.one_of(
    VALUES.filter(lambda value: not isinstance(value, list)),
    st.builds(lambda op, value: {op: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(0, 4)),
    st.builds(lambda low, high: {"$gte": low, "$lt": high}, st.integers(0, 4), st.integers(0, 5)),
)
FILTERS = st.dictionaries(st.sampled_from(["a", "b"]), CONDITIONS, min_size=1, max_size=2)
SORTS = st.sampled_from([(), (("a", 1),), (("a", -1), ("b", 1)), (("b", 1), ("_id", 1))])
INDEXES = st.lists(
    st.sampled_from([spec(("a", 1)), spec(("a", -1), ("b", 1)), spec(("b", 1), ("a", 1), sparse=True)]),
    max_size=3, unique_by=lambda made: made.name,
)  # fmt: skip
STEPS = st.lists(
    st.one_of(st.tuples(FILTERS, SORTS), st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)), max_size=30
)


def given_by(source: Source) -> list[bytes] | None:
    """The documents; None where two of the fields that they are sorted by are arrays in one of them."""
    try:
        return source.next_batch(1000, 1 << 24, NEVER).documents
    except CommandError as error:
        if error.code != Code.BadValue:
            raise
        return None


@given(INDEXES, STEPS)
def test_whatever_is_kept_the_same_is_found(indexes: list[Any], steps: list[Any]) -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=tuple(indexes))
    for number, step in enumerate(steps):
        if isinstance(step, dict):
            with suppress(CommandError):  # arrays side by side under one index
                insert(store, coll, doc(number, **step))
            continue
        fields, sort = step
        wanted = query(fields, sort)
        kept = open_find(coll, wanted, store.engine, clock=lambda: 0)
        scanned = open_find(coll, wanted, store.engine, clock=lambda: 0, indexes=[])
        found, expected = given_by(kept), given_by(scanned)
        assert (found is None) is (expected is None)
        if found is None or expected is None:
            continue
        assert sorted(found) == sorted(expected)
        if sort:
            key = wanted.sort.pattern().sort_key
            assert [key(raw) for raw in found] == [key(raw) for raw in expected]
