"""Text indexes: ordinary indexes, whose keys are terms."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.collection.collection import Collection
from docstore.collection.read.execute import open_find
from docstore.collection.read.planning import plan_query
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.find import FindQuery, Hint
from docstore.query.plan.access import Eof, IndexScan
from docstore.query.projection.parse import parse_projection
from docstore.query.sort import Sort, parse_sort
from tests.unit.collection.building import check, doc, insert, make, plain, remove, spec, store_on, update

NEVER = float("inf")
WORDS = ("fox", "foxes", "dog", "quick", "the", "running", "run", "brown")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
SEARCHES = st.lists(st.sampled_from([*WORDS, "-dog", "-fox", '"quick fox"', '-"brown dog"']), max_size=4).map(" ".join)


def words(*keys: tuple[str, Any], **options: Any) -> Any:
    return spec(*(keys or (("t", "text"),)), name="words", **options)


def find(coll: Collection, store: Store, condition: dict[str, Any], **asked: Any) -> list[dict[str, Any]]:
    tree = parse_filter(bson.encode(condition))
    query = FindQuery(
        filter=tree,
        projection=parse_projection(bson.encode(asked.get("projection", {})), tree=tree),
        sort=parse_sort(bson.encode(asked.get("sort", {})), tree=tree),
    )
    source = open_find(coll, query, store.engine, clock=lambda: 0.0)
    return [plain(raw) for raw in source.next_batch(1000, 1 << 24, NEVER).documents]


def ids(found: list[dict[str, Any]]) -> list[Any]:
    return [each["_id"] for each in found]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.lists(TEXTS, max_size=2)), max_size=8), SEARCHES)
def test_the_index_leads_to_all_that_a_search_finds(texts: list[Any], search: str) -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(n, t=text, a=n) for n, text in enumerate(texts)), indexes=(words(),))
    condition = {"$text": {"$search": search}}
    tree = parse_filter(bson.encode(condition))
    plan_query(coll, FindQuery(filter=tree))
    index = coll.indexes["words"]
    assert index.text is not None
    expected = [n for n, raw in enumerate(coll.documents(store.engine)) if tree.matcher.finds(raw)]  # type: ignore[union-attr]
    assert sorted(ids(find(coll, store, condition))) == expected
    check(store)


def test_entries_follow_the_documents() -> None:
    store = store_on()
    indexes = (
        words(("a", 1), ("t", "text"), ("b", -1), weights={"u.v": 3}, partialFilterExpression={"a": {"$gt": 0}}),
    )
    coll = make(store, "db.c", doc(1, a=1, t="quick fox", u={"v": "dog"}), doc(2, a=0, t="fox"), indexes=indexes)
    insert(store, coll, doc(3, a=2, t="the"), doc(4, a=2, b=5, t=["fox", "bear"]))
    check(store)
    assert coll.indexes["words"].multikey
    update(store, coll, doc(1, a=1, u={"v": "cat"}))
    update(store, coll, doc(2, a=3, t="fox"))
    remove(store, coll, 4)
    check(store)
    assert ids(find(coll, store, {"$text": {"$search": "fox cat"}, "a": 3})) == [2]
    build = store.build_index(make(store, "db.d", doc(1, t="x y z")), [words(("$**", "text"))])
    assert build.step(NEVER)
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
    check(store)


def test_a_change_of_the_language_changes_the_entries() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, t="running"), indexes=(words(),))
    assert ids(find(coll, store, {"$text": {"$search": "run"}})) == [1]
    update(store, coll, doc(1, t="running", language="none"))
    assert ids(find(coll, store, {"$text": {"$search": "run"}})) == []
    check(store)


def test_scores_are_shown_and_sorted_by() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, t="fox and dog"), doc(2, t="fox fox"), doc(3, t="fox"), indexes=(words(),))
    score = {"$meta": "textScore"}
    found = find(coll, store, {"$text": {"$search": "fox"}}, projection={"_id": 1, "s": score}, sort={"s": score})
    assert found == [{"_id": 2, "s": 1.5}, {"_id": 3, "s": 1.1}, {"_id": 1, "s": 0.75}]
    with pytest.raises(CommandError) as refused:
        find(coll, store, {}, sort={"s": score})
    assert refused.value.code == 40218


@pytest.mark.parametrize(
    ("document", "code"),
    [({"t": "x", "language": 5}, 17261), ({"t": "x", "language": "klingon"}, 17262), ({"t": "x", "a": [1]}, 201)],
)
def test_documents_that_the_index_cannot_hold(document: dict[str, Any], code: int) -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=(words(("t", "text"), ("a", 1)),))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, doc(1, **document))
    assert refused.value.code == code


def test_a_unique_key_is_shown_as_a_term() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, t="fox", a=1), indexes=(words(("t", "text"), ("a", 1), unique=True),))
    with pytest.raises(CommandError, match=r'dup key: \{ _fts: "fox", a: 1 \}'):
        insert(store, coll, doc(2, t="Fox", a=1))


def test_how_a_search_is_planned() -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=(words(("a", 1), ("t", "text")), spec(("b", 1))))

    def access(condition: dict[str, Any], **rest: Any) -> Any:
        return plan_query(coll, FindQuery(filter=parse_filter(bson.encode(condition)), **rest)).access

    search = {"$text": {"$search": "fox"}}
    found = access({**search, "a": 1, "b": 2})
    assert isinstance(found, IndexScan)
    assert found.index.name == "words"
    assert access({"$text": {"$search": "the"}, "a": 1}) == Eof()
    assert isinstance(access({"a": 1, "b": 1}), IndexScan)
    for condition, rest, code in (
        (search, {}, Code.NoQueryExecutionPlans),
        ({**search, "a": {"$gt": 1}}, {}, Code.NoQueryExecutionPlans),
        ({"$or": [search, {"b": 1}]}, {}, Code.NoQueryExecutionPlans),
        ({"$nor": [search]}, {}, Code.BadValue),
        ({"$and": [search, search]}, {}, Code.BadValue),
        ({**search, "a": 1}, {"hint": Hint(name="words")}, Code.BadValue),
        ({**search, "a": 1}, {"sort": Sort(natural=1)}, Code.BadValue),
        ({"$text": {"$search": "x", "$language": "klingon"}, "a": 1}, {}, Code.BadValue),
    ):
        with pytest.raises(CommandError) as refused:
            access(condition, **rest)
        assert refused.value.code == code
    with pytest.raises(CommandError) as refused:
        plan_query(None, FindQuery(filter=parse_filter(bson.encode(search))))
    assert refused.value.code == Code.IndexNotFound
