"""Following another member's oplog: strictly in steady state, tolerantly in an initial sync."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson import from_python, get_field
from docstore.collection.catalog.ddl import modify_index
from docstore.collection.catalog.options import options_of
from docstore.collection.changes import Commit
from docstore.collection.oplog.apply import ApplyError, EntryUnit, apply_entry, begin_build
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.errors import CommandError
from docstore.storage import Family, open_engine
from tests.harness.undoing import roll_back
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

_COMMAND = from_python("c")


def follow(leader: Store, follower: Store) -> None:
    for entry in entries(leader, follower.last_optime.timestamp):
        apply_entry(follower, entry)


def held(store: Store) -> dict[str, Any]:
    """Everything that members must agree on."""
    return {
        ns: (
            coll.uuid,
            coll.options,
            coll.count,
            coll.size,
            {name: (index.spec, index.multikey) for name, index in coll.indexes.items()},
            sorted(coll.documents(store.engine)),
        )
        for ns, coll in store.catalog.collections.items()
    }


def busy_leader() -> Store:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=[1, 2]), doc(2, x=3, k="y" * 100), indexes=(spec(("x", 1), unique=True),))
    update(store, coll, doc(2, x=4, k="y" * 100))
    with store.unit(session=SessionWrite(b"s" * 48, 3)) as unit:
        unit.insert(coll, doc(3), stmt_id=5)
        unit.commit()
    remove(store, coll, 1)
    other = make(store, "db.d", doc(1, z=1), doc(2, z=2))
    build = store.build_index(other, [spec(("z", -1))])
    build.step(float("inf"))
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
    with store.unit() as unit:
        modify_index(store.catalog, unit, other, "z_-1", hidden=True)
        store.drop_index(unit, coll, "x_1")
        store.rename_collection(unit, "db.d", "db.e")
        unit.noop(bson.encode({"msg": "hello"}))
        unit.commit()
    make(store, "gone.c", doc(1))
    with store.unit() as unit:
        store.drop_database(unit, "gone")
        unit.commit()
    return store


def test_a_follower_holds_the_same_and_logs_the_same_bytes() -> None:
    leader, follower = busy_leader(), store_on()
    follow(leader, follower)
    assert held(follower) == held(leader)
    assert entries(follower) == entries(leader)
    assert follower.last_optime == leader.last_optime
    check(follower)


def test_a_follower_knows_the_executed_statements() -> None:
    leader, follower = busy_leader(), store_on()
    follow(leader, follower)
    made = leader.sessions.statement(b"s" * 48, 3, 5)
    assert made is not None
    assert follower.sessions.statement(b"s" * 48, 3, 5) == made
    assert follower.engine.get(Family.META, b"s" + b"s" * 48) == leader.engine.get(Family.META, b"s" + b"s" * 48)
    with pytest.raises(CommandError):
        follower.sessions.check(b"s" * 48, 2)


@pytest.mark.parametrize("groups", [False, True])
def test_a_follower_rolls_back_what_it_applied(groups: bool) -> None:
    leader, follower = leader_of_groups() if groups else busy_leader(), store_on()
    log = entries(leader)
    states = []
    for entry in log:
        apply_entry(follower, entry)
        states.append(deepcopy(held(follower)))
    for place in range(len(log) - 2, -1, -1):
        roll_back(follower, entry_optime(log[place]))
        assert held(follower) == states[place]
        check(follower)
    follow(leader, follower)
    assert held(follower) == held(leader)


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_follower_that_knows_of_no_shard_key_applies_what_names_documents_by_it(tolerant: bool) -> None:
    leader, follower = store_on(), store_on()
    leader.document_keys["db.c"] = DocumentKey(("x",))
    coll = make(leader, "db.c", doc(1, x=1), doc(2, x=2))
    with leader.unit() as unit:
        unit.insert_all(coll, [doc(3, x=3), doc(4)])
        unit.commit()
    update(leader, coll, doc(1, x=5))
    remove(leader, coll, 2)
    with leader.unit(session=SessionWrite(bytes(48), 1)) as unit:
        unit.insert(coll, doc(6, x=6), stmt_id=0)
        unit.commit()
    for entry in entries(leader):
        apply_entry(follower, entry, tolerant=tolerant)
    assert held(follower) == held(leader)
    assert entries(follower) == entries(leader)
    if not tolerant:
        common = entry_optime(entries(leader)[2])
        roll_back(follower, common)
        roll_back(leader, common)
        assert held(follower) == held(leader)


def follow_in_units(leader: Store, follower: Store, most: int) -> None:
    """Several entries a unit; commands have their own."""
    log = entries(leader, follower.last_optime.timestamp)
    while log:
        size = 1
        if get_field(log[0], "op") != _COMMAND:
            while size < min(most, len(log)) and get_field(log[size], "op") != _COMMAND:
                size += 1
        with EntryUnit(follower) as unit:
            for entry in log[:size]:
                unit.apply(entry)
            unit.commit()
        log = log[size:]


def rows(store: Store) -> dict[Family, list[tuple[bytes, bytes]]]:
    return {family: list(store.engine.items(family, b"", b"\xff" * 80)) for family in Family}


def leader_of_groups() -> Store:
    """Inserts with one entry for several, among others; arrays, unique keys and identities out of order in them."""
    store = store_on()
    coll = make(store, "db.c", doc(0, x=0), indexes=(spec(("x", 1), unique=True), spec(("y", 1))))
    for first in (50, 10, 100):
        with store.unit(from_migrate=True) as unit:
            unit.insert_all(coll, [doc(first + n, x=first + n, y=[n, -n]) for n in range(7)])
            unit.commit()
        update(store, coll, doc(0, x=-first))
    remove(store, coll, 12)
    with store.unit() as unit:
        unit.insert_all(coll, [doc(12, x=12), doc("text", x="text")])
        unit.insert_all(coll, [doc(first, x=first) for first in (3, 2)])
        unit.commit()
    return store


def test_inserts_that_belong_together_are_one_entry_and_one_undo_record() -> None:
    store, heard = store_on(), list[Commit]()
    coll = make(store, "db.c", indexes=(spec(("x", 1)),))
    before = store.last_optime
    store.subscribe(heard.append)
    documents = [doc(n, x=n) for n in (2, 1, 3)]
    with store.unit(from_migrate=True) as unit:
        unit.insert_all(coll, documents)
        unit.commit()
    (entry,) = map(plain, entries(store, before.timestamp))
    assert (entry["op"], entry["ns"], entry["fromMigrate"]) == ("c", "admin.$cmd", True)
    assert [list(each) for each in entry["o"]["applyOps"]] == [["op", "ns", "ui", "o", "o2"]] * 3
    assert [(each["op"], each["ns"], each["o"], each["o2"]) for each in entry["o"]["applyOps"]] == [
        ("i", "db.c", {"_id": n, "x": n}, {"_id": n}) for n in (2, 1, 3)
    ]
    assert {bytes(each["ui"]) for each in entry["o"]["applyOps"]} == {coll.uuid.bytes}
    ((optime, changes),) = heard
    assert optime == store.last_optime
    assert [(change.ns, change.op, change.after) for change in changes] == [("db.c", "i", raw) for raw in documents]
    assert (coll.count, coll.size) == (3, sum(map(len, documents)))
    check(store)
    roll_back(store, before)
    assert store.collection("db.c") is not None
    assert not list(store.catalog.collections["db.c"].documents(store.engine))
    check(store)


@pytest.mark.parametrize("taken", [doc(1, x=9), doc(9, x=1), doc(5, x=5)])
def test_inserts_that_belong_together_are_refused_together(taken: bytes) -> None:
    """By what is stored, by a unique key, by one of their own."""
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1), unique=True),))
    last = store.last_optime
    with store.unit() as unit, pytest.raises(CommandError):
        unit.insert_all(coll, [doc(4, x=4), doc(5, x=5), taken])
    assert store.last_optime == last
    assert (coll.count, len(list(coll.documents(store.engine)))) == (1, 1)
    insert(store, coll, doc(4, x=4))
    check(store)


def test_an_initial_sync_takes_grouped_inserts_over_what_it_has_copied() -> None:
    leader, copy = leader_of_groups(), store_on()
    log = entries(leader)
    for _ in range(2):
        for entry in log:
            apply_entry(copy, entry, tolerant=True)
    assert held(copy) == held(leader)
    check(copy)


def leader_of_sessions() -> Store:
    """Retryable writes of two sessions in turn, over two transaction numbers, among writes of no session."""
    store = store_on()
    coll = make(store, "db.c", doc(0, x=0), indexes=(spec(("x", 1), unique=True),))
    for number in range(1, 9):
        session = SessionWrite(bytes([number % 2]) * 48, number // 4)
        with store.unit(session=session) as unit:
            unit.insert(coll, doc(number, x=number), stmt_id=number)
            unit.insert(coll, doc(number + 100, x=[number + 100, number + 200]), stmt_id=number + 100)
            unit.commit()
        update(store, coll, doc(0, x=-number))
    remove(store, coll, 3)
    insert(store, coll, doc(3, x=3))
    return store


@pytest.mark.parametrize("most", [2, 3, 1000])
@pytest.mark.parametrize("lead", [busy_leader, leader_of_sessions, leader_of_groups])
def test_units_of_several_entries_end_where_single_ones_do(lead: Callable[[], Store], most: int) -> None:
    leader, single, follower = lead(), store_on(), store_on()
    follow(leader, single)
    follow_in_units(leader, follower, most)
    assert rows(follower) == rows(single)
    check(follower)
    for lsid in (bytes(48), b"\1" * 48):
        ours, theirs = follower.sessions.state(lsid), leader.sessions.state(lsid)
        assert (ours.txn_number, ours.last, ours.row) == (theirs.txn_number, theirs.last, theirs.row)
        for statement in (1, 2, 4, 7, 8, 107):
            found = leader.sessions.statement(lsid, theirs.txn_number, statement)
            assert follower.sessions.statement(lsid, theirs.txn_number, statement) == found
    log = entries(leader)
    for place in range(len(log) - 2, 5, -3):
        for store in (single, follower):
            roll_back(store, entry_optime(log[place]))
        assert rows(follower) == rows(single)


def test_a_unit_with_an_entry_that_does_not_fit_has_no_effect() -> None:
    leader, follower = store_on(), store_on()
    coll = make(leader, "db.c", doc(1, x=1))
    follow(leader, follower)
    before = rows(follower)
    insert(leader, coll, doc(2, x=[1, 2]))
    update(leader, coll, doc(1, x=2))
    log = entries(leader, follower.last_optime.timestamp)
    misfit = log[1].replace(bson.encode({"_id": 1}), bson.encode({"_id": 7}))
    with EntryUnit(follower) as unit:
        unit.apply(log[0])
        with pytest.raises(ApplyError):
            unit.apply(misfit)
    assert rows(follower) == before
    follow(leader, follower)
    assert held(follower) == held(leader)


def test_an_entry_behind_a_gap_is_not_logged_twice() -> None:
    leader, copy = leader_of_sessions(), store_on()
    log = entries(leader)
    for entry in (*log[:2], *log[3:]):
        apply_entry(copy, entry, tolerant=True)
    with EntryUnit(copy, tolerant=True) as unit:
        for entry in log[2:]:
            unit.apply(entry)
        unit.commit()
    assert entries(copy) == log
    assert copy.oplog is not None
    assert leader.oplog is not None
    assert (copy.oplog.count, copy.oplog.size) == (leader.oplog.count, leader.oplog.size)


def test_later_timestamps_follow_what_was_applied() -> None:
    leader, follower = busy_leader(), store_on(clock=lambda: 1.0)
    follow(leader, follower)
    assert follower.oplog is not None
    assert follower.oplog.next_timestamp() > leader.last_optime.timestamp


def test_listeners_hear_of_applied_entries() -> None:
    leader, follower = busy_leader(), store_on()
    heard: list[Commit] = []
    follower.subscribe(heard.append)
    follow(leader, follower)
    assert [commit.optime for commit in heard] == [entry_optime(entry) for entry in entries(leader)]
    assert heard[2].changes[0][:4] == ("db.c", "i", None, doc(1, x=[1, 2]))


@pytest.mark.parametrize("lost", ["update", "remove"])
def test_a_member_that_differs_refuses_to_go_on(lost: str) -> None:
    leader, follower = store_on(), store_on()
    coll = make(leader, "db.c", doc(1))
    follow(leader, follower)
    with follower.unit(replicated=False) as unit:
        found = follower.catalog.collections["db.c"].by_id(unit, from_python(1))
        assert found is not None
        unit.remove(follower.catalog.collections["db.c"], *found)
        unit.commit()
    if lost == "update":
        update(leader, coll, doc(1, x=1))
    else:
        remove(leader, coll, 1)
    before = follower.last_optime
    with pytest.raises(ApplyError, match="no document"):
        follow(leader, follower)
    assert follower.last_optime == before


def test_strict_applying_refuses_what_is_there_already() -> None:
    leader, follower = store_on(), store_on()
    make(leader, "db.c", doc(1))
    follow(leader, follower)
    for entry in entries(leader):
        with pytest.raises((ApplyError, CommandError, AssertionError)):
            apply_entry(follower, entry)
    assert held(follower) == held(leader)


def test_an_unknown_entry_is_refused() -> None:
    store = store_on()
    stamp = {"ts": bson.Timestamp(5, 1), "t": 1}
    for bad in (
        {"op": "x", "o": {}},
        {"op": "c", "ns": "a.$cmd", "o": {"convert": 1}},
        {"op": "i", "ns": "a.b", "o": {}},
    ):
        with pytest.raises(ApplyError):
            apply_entry(store, bson.encode(bad | stamp))


def test_an_index_over_documents_is_built_in_steps_before_its_entry() -> None:
    leader, follower = store_on(), store_on()
    coll = make(leader, "db.c", *(doc(n, x=n) for n in range(50)))
    follow(leader, follower)
    build = leader.build_index(coll, [spec(("x", 1))])
    build.step(float("inf"))
    with leader.unit() as unit:
        build.finish(unit)
        unit.commit()
    entry = entries(leader)[-1]
    theirs = begin_build(follower, entry)
    assert theirs is not None
    assert not theirs.step(0.0)
    assert theirs.step(float("inf"))
    apply_entry(follower, entry, build=theirs)
    assert held(follower) == held(leader)
    check(follower)
    assert begin_build(follower, entry) is None
    assert begin_build(follower, entries(leader)[0]) is None


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


def test_a_follower_and_a_restart_keep_the_order_of_a_clustered_collection() -> None:
    engine = open_engine("inMemory", "")
    leader, follower = store_on(), store_on(engine)
    clustered = {"v": 2, "key": {"_id": 1}, "name": "mine", "unique": True}
    with leader.unit() as unit:
        coll = leader.create_collection(unit, "db.c", options_of({"clusteredIndex": clustered}))
        for identity in (3, 1, 2):
            unit.insert(coll, doc(identity))
        unit.commit()

    follow(leader, follower)

    for store in (follower, store_on(engine)):
        copy = store.collection("db.c")
        assert copy is not None
        assert [each["_id"] for each in read(copy, store.engine)] == [1, 2, 3]
        assert held(store) == held(leader)
        assert list(copy.indexes) == ["mine"]
        check(store)
