"""Following another member's oplog: strictly in steady state, tolerantly in an initial sync."""

from __future__ import annotations

from copy import deepcopy

import bson
import pytest

from docstore.bson import from_python
from docstore.collection.catalog.options import options_of
from docstore.collection.changes import Commit
from docstore.collection.oplog.apply import ApplyError, EntryUnit, apply_entry, begin_build
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.sessions import SessionWrite
from docstore.errors import CommandError
from docstore.storage import Family, open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import (
    check,
    doc,
    entries,
    make,
    read,
    remove,
    spec,
    store_on,
    update,
)
from tests.unit.collection.following import busy_leader, follow, held, leader_of_groups
from tests.unit.collection.test_apply_groups import leader_of_sessions


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
