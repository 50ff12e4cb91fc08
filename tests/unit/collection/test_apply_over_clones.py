"""Entries over a copy that has some of them already, as in an initial sync."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson import from_python
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.store import Store
from docstore.errors import CommandError
from docstore.storage import Family
from tests.unit.collection.building import (
    check,
    doc,
    entries,
    insert,
    make,
    plain,
    read,
    remove,
    spec,
    store_on,
    update,
)


def clone(leader: Store, copy: Store) -> None:
    """Copy collections, indexes and documents as they stand, as an initial sync does."""
    for ns, coll in leader.catalog.collections.items():
        with copy.unit(replicated=False) as unit:
            made = copy.create_collection(unit, ns, coll.options, uuid=coll.uuid)
            for index in coll.indexes.values():
                if not index.is_id:
                    copy.create_index(unit, made, index.spec)
            for raw in coll.documents(leader.engine):
                unit.insert(made, raw)
            unit.commit()


NAMES = st.sampled_from(["db.a", "db.b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, st.integers(0, 4), st.dictionaries(
            st.sampled_from("uxy"), st.one_of(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2)), max_size=3)),
        st.tuples(st.just("remove"), NAMES, st.integers(0, 4), st.just({})),
        st.tuples(st.sampled_from(["drop", "rename", "index"]), NAMES, st.just(0), st.just({})),
    ),
    min_size=2,
    max_size=25,
)  # fmt: skip


def do(store: Store, kind: str, ns: str, identity: int, fields: dict[str, Any]) -> None:
    coll = store.collection(ns)
    if coll is None:
        if kind == "put":
            make(store, ns, doc(identity, kept="k" * 60, **fields))
        return
    if kind == "drop":
        with store.unit() as unit:
            store.drop_collection(unit, ns)
            unit.commit()
    elif kind == "rename":
        with store.unit() as unit:
            store.rename_collection(unit, ns, "db.b" if ns == "db.a" else "db.a", drop_target=True)
            unit.commit()
    elif kind == "index":
        do_index(store, ns)
    else:
        found = coll.by_id(store.engine, from_python(identity))
        if kind == "remove" and found is not None:
            remove(store, coll, identity)
        elif kind == "put" and found is None:
            insert(store, coll, doc(identity, kept="k" * 60, **fields))
        elif kind == "put":
            update(store, coll, doc(identity, kept="k" * 60, **fields))


def do_index(store: Store, ns: str) -> None:
    coll = store.catalog.collections[ns]
    if "u_1" in coll.indexes:
        with store.unit() as unit:
            store.drop_index(unit, coll, "u_1")
            unit.commit()
        return
    build = store.build_index(coll, [spec(("u", 1), ("x", 1), name="u_1", unique=True, sparse=True)])
    try:
        build.step(float("inf"))
        with store.unit() as unit:
            build.finish(unit)
            unit.commit()
    except CommandError:
        build.abort()


@given(STEPS, st.data())
@settings(max_examples=150, deadline=None)
def test_a_clone_and_any_suffix_that_covers_it_end_in_the_leaders_state(
    steps: list[tuple[str, str, int, dict[str, Any]]], data: st.DataObject
) -> None:
    """Fetching begins first, collections are cloned later, applying comes last; a suffix applied again changes
    nothing.
    """
    leader, copy = store_on(), store_on()
    begin = data.draw(st.integers(0, len(steps)), label="fetching begins")
    cloned = data.draw(st.integers(begin, len(steps)), label="clone")
    start = 0
    for place in range(len(steps) + 1):
        if place == begin:
            start = leader.last_optime.timestamp
        if place == cloned:
            clone(leader, copy)
        if place < len(steps):
            try:
                do(leader, *steps[place])
            except CommandError:
                continue
    fetched = entries(leader, start)
    for entry in fetched:
        apply_entry(copy, entry, tolerant=True)
    assert documents_of(copy) == documents_of(leader)
    check(copy)
    again = data.draw(st.integers(0, len(fetched)), label="applied again from")
    for entry in fetched[again:]:
        apply_entry(copy, entry, tolerant=True)
    assert documents_of(copy) == documents_of(leader)
    assert entries(copy) == fetched
    check(copy)


def documents_of(store: Store) -> dict[str, Any]:
    """What an initial sync must agree on: an index may stay marked as multikey."""
    return {
        ns: (coll.uuid, coll.count, sorted(coll.indexes), sorted(coll.documents(store.engine)))
        for ns, coll in store.catalog.collections.items()
    }


def test_entries_applied_tolerantly_cannot_be_undone() -> None:
    leader, copy = store_on(), store_on()
    make(leader, "db.c", doc(1))
    for entry in entries(leader):
        apply_entry(copy, entry, tolerant=True)
    assert not list(copy.engine.keys(Family.UNDO, b"", b"\xff"))
    assert read(copy.catalog.collections["db.c"], copy.engine) == [{"_id": 1}]
    assert plain(entries(copy)[-1])["op"] == "i"
