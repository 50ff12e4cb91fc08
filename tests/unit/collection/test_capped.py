"""Capped collections: what goes when a document comes, and that every member and every restart sees the same."""

from __future__ import annotations

import bson
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson import from_python
from docstore.collection.catalog.options import capped_size, options_of
from docstore.collection.collection import Collection
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.store import Store
from docstore.storage import open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, doc, entries, insert, plain, read, remove, spec, store_on, update


def capped(store: Store, size: int, maximum: int = 0) -> Collection:
    options = {"capped": True, "size": capped_size(size)} | ({"max": maximum} if maximum else {})
    with store.unit() as unit:
        coll = store.create_collection(unit, "db.c", options_of(options))
        unit.commit()
    return coll


def ids(store: Store, coll: Collection) -> list[object]:
    return [document["_id"] for document in read(coll, store.engine)]


def test_the_oldest_go_when_there_are_too_many() -> None:
    store = store_on()
    coll = capped(store, 4096, 2)
    insert(store, coll, doc(1), doc(2), doc(3), doc(4))
    assert ids(store, coll) == [3, 4]
    check(store)


def test_each_removal_is_an_entry_after_that_of_the_insert_that_caused_it() -> None:
    store = store_on()
    coll = capped(store, 4096, 2)
    insert(store, coll, doc(1), doc(2), doc(3), doc(4))
    logged = [(entry["op"], entry["o"]["_id"]) for entry in map(plain, entries(store)) if entry["op"] in "id"]
    assert logged == [("i", 1), ("i", 2), ("i", 3), ("d", 1), ("i", 4), ("d", 2)]


def test_a_document_larger_than_the_collection_stays_alone_until_the_next() -> None:
    store = store_on()
    coll = capped(store, 512)
    insert(store, coll, doc(1, a="x" * 200), doc(2, a="x" * 200), doc(3, a="x" * 600))
    assert ids(store, coll) == [3]
    insert(store, coll, doc(4))
    assert ids(store, coll) == [4]
    check(store)


def test_an_update_may_outgrow_the_collection_and_the_next_insert_pays() -> None:
    store = store_on()
    coll = capped(store, 512)
    insert(store, coll, doc(1), doc(2))
    update(store, coll, doc(2, a="x" * 600))
    assert ids(store, coll) == [1, 2]
    insert(store, coll, doc(3))
    assert ids(store, coll) == [3]
    check(store)


def test_options_and_counters_are_there_after_a_restart() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    insert(store, capped(store, 4096, 3), *(doc(number) for number in range(7)))
    again = store_on(engine)
    coll = again.collection("db.c")
    assert coll is not None
    insert(again, coll, doc(7))
    assert ids(again, coll) == [5, 6, 7]
    check(again)


def test_a_clone_is_put_together_without_removals() -> None:
    store = store_on()
    coll = capped(store, 256, 1)
    with store.unit(replicated=False, trims=False) as unit:
        unit.insert(coll, doc(1))
        unit.insert(coll, doc(2))
        unit.commit()
    assert ids(store, coll) == [1, 2]


def test_rollback_brings_back_what_an_insert_has_displaced() -> None:
    store = store_on()
    coll = capped(store, 4096, 2)
    insert(store, coll, doc(1), doc(2))
    before = store.last_optime
    insert(store, coll, doc(3))
    insert(store, coll, doc(4))
    roll_back(store, before)
    assert ids(store, coll) == [1, 2]
    insert(store, coll, doc(5))
    assert ids(store, coll) == [2, 5]
    check(store)


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["insert", "batch", "update", "remove"]), st.integers(0, 30), st.integers(0, 300)),
    max_size=30,
)


class Model:
    """A capped collection as a list."""

    def __init__(self, size: int, maximum: int) -> None:
        self.size, self.maximum = capped_size(size), maximum
        self.held: list[bytes] = []

    def insert(self, raw: bytes) -> None:
        self.held.append(raw)
        while len(self.held) > 1 and (sum(map(len, self.held)) > self.size or 0 < self.maximum < len(self.held)):
            del self.held[0]

    def position(self, identity: int) -> int | None:
        return next((at for at, raw in enumerate(self.held) if bson.decode(raw)["_id"] == identity), None)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 1500), maximum=st.integers(0, 6), steps=steps)
def test_any_course_of_writes_leaves_what_the_model_holds_here_and_on_a_follower(
    size: int, maximum: int, steps: list[Step]
) -> None:
    store, follower = store_on(), store_on()
    coll = capped(store, size, maximum)
    with store.unit() as unit:
        store.create_index(unit, coll, spec(("a", 1)))
        unit.commit()
    model = Model(size, maximum)
    next_id = 0
    for kind, number, length in steps:
        if kind in ("insert", "batch"):
            made = [doc(next_id + extra, a="x" * length) for extra in range(1 if kind == "insert" else 1 + number % 9)]
            next_id += len(made)
            insert(store, coll, *made)
            for raw in made:
                model.insert(raw)
        at = model.position(number) if kind in ("update", "remove") else None
        if at is not None and kind == "update":
            model.held[at] = doc(number, a="y" * length)
            update(store, coll, model.held[at])
        elif at is not None:
            del model.held[at]
            remove(store, coll, number)
    assert list(coll.documents(store.engine)) == model.held
    check(store)
    for entry in entries(store):
        apply_entry(follower, entry)
    copy = follower.collection("db.c")
    assert copy is not None
    assert list(copy.documents(follower.engine)) == model.held
    check(follower)


def test_natural_order_goes_both_ways() -> None:
    store = store_on()
    coll = capped(store, 4096, 3)
    insert(store, coll, *(doc(number) for number in range(5)))
    assert [plain(raw)["_id"] for raw in coll.documents(store.engine, reverse=True)] == [4, 3, 2]
    assert coll.by_id(store.engine, from_python(1)) is None
