"""Inserts that belong together, and units of several entries: their end is that of single ones."""

from __future__ import annotations

from collections.abc import Callable

import bson
import pytest

from docstore.collection.changes import Commit
from docstore.collection.oplog.apply import ApplyError, EntryUnit, apply_entry
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.errors import CommandError
from tests.harness.undoing import roll_back
from tests.unit.collection.building import (
    check,
    doc,
    entries,
    insert,
    make,
    plain,
    remove,
    spec,
    store_on,
    update,
)
from tests.unit.collection.following import busy_leader, follow, follow_in_units, held, leader_of_groups, rows, state_of


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
    assert state_of(follower) == state_of(single)
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
        assert state_of(follower) == state_of(single)


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
