"""The oplog's clock, its ends and its bound."""

from __future__ import annotations

import pytest

from docstore.collection.oplog.apply import apply_entry
from docstore.collection.oplog.oplog import entry_optime
from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.storage import open_engine
from tests.unit.collection.building import check, doc, entries, insert, make, plain, store_on


def test_timestamps_increase_while_the_clock_stands_or_goes_back() -> None:
    now = [1_700_000_000.0]
    store = store_on(clock=lambda: now[0])
    oplog = store.oplog
    assert oplog is not None
    stamps = [oplog.next_timestamp() for _ in range(3)]
    now[0] -= 5000
    stamps.append(oplog.next_timestamp())
    now[0] += 5001
    stamps.append(oplog.next_timestamp())
    assert stamps == [(1_700_000_000 << 32) + n for n in (1, 2, 3, 4)] + [(1_700_000_001 << 32) + 1]


def test_a_time_heard_of_is_passed() -> None:
    store = store_on(clock=lambda: 1_700_000_000.0)
    oplog = store.oplog
    assert oplog is not None
    heard = (1_800_000_000 << 32) + 7
    oplog.observe(heard)
    assert oplog.cluster_time == heard
    assert oplog.next_timestamp() == heard + 1
    oplog.observe(5)
    assert oplog.next_timestamp() == heard + 2


def test_timestamps_increase_across_a_restart_with_an_earlier_clock() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine, clock=lambda: 1_700_000_000.0)
    make(store, "db.c", doc(1))
    last = store.last_optime
    again = store_on(engine, clock=lambda: 1_600_000_000.0)
    assert again.last_optime == last
    coll = again.collection("db.c")
    assert coll is not None
    insert(again, coll, doc(2))
    assert again.last_optime.timestamp == last.timestamp + 1


def test_the_term_stands_in_new_entries() -> None:
    store = store_on()
    coll = make(store, "db.c")
    assert store.oplog is not None
    store.oplog.term = 7
    insert(store, coll, doc(1))
    assert plain(entries(store)[-1])["t"] == 7
    assert store.last_optime.term == 7


def test_entries_are_found_by_timestamp_and_walked_from_any_place() -> None:
    store = store_on()
    coll = make(store, "db.c")
    insert(store, coll, *(doc(n) for n in range(5)))
    oplog = store.oplog
    assert oplog is not None
    log = entries(store)
    stamps = [entry_optime(entry).timestamp for entry in log]
    assert oplog.first == entry_optime(log[0])
    assert oplog.entry(stamps[2]) == log[2]
    assert oplog.entry(stamps[2] - 1_000_000) is None
    assert list(oplog.scan(store.engine, stamps[2])) == log[3:]
    assert list(oplog.scan_back(store.engine)) == log[::-1]
    assert list(oplog.scan_back(store.engine, stamps[2])) == log[1::-1]


def test_truncation_waits_for_the_commit_point() -> None:
    store = store_on()
    oplog = store.oplog
    assert oplog is not None
    coll = make(store, "db.c")
    insert(store, coll, *(doc(n, x="y" * 100) for n in range(50)))
    oplog.max_bytes = oplog.size // 2
    assert oplog.truncate_old() == 0
    log = entries(store)
    store.discard_undo(entry_optime(log[9]))
    assert oplog.truncate_old() == 10
    assert entries(store) == log[10:]
    assert oplog.first == entry_optime(log[10])
    store.discard_undo(store.last_optime)
    assert oplog.truncate_old() > 0
    assert oplog.size <= oplog.max_bytes
    assert oplog.truncate_old() == 0
    check(store)


def test_the_newest_entry_is_never_truncated() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    oplog = store.oplog
    assert oplog is not None
    make(store, "db.c", doc(1), doc(2))
    oplog.max_bytes = 0
    store.discard_undo(store.last_optime)
    assert oplog.truncate_old() == 2
    assert oplog.count == 1
    assert oplog.first == oplog.last == store.last_optime
    assert oplog.truncate_old() == 0
    assert store_on(engine).last_optime == store.last_optime


def test_truncation_stops_when_its_time_is_up() -> None:
    store = store_on()
    oplog = store.oplog
    assert oplog is not None
    coll = make(store, "db.c")
    insert(store, coll, *(doc(n) for n in range(1000)))
    oplog.max_bytes = 0
    store.discard_undo(store.last_optime)
    assert oplog.truncate_old(deadline=0.0) == 128
    check(store)
    while oplog.truncate_old(deadline=0.0):
        check(store)
    assert oplog.count == 1


def test_an_empty_oplog_has_no_ends() -> None:
    store = store_on()
    assert store.oplog is not None
    assert store.oplog.first == store.oplog.last == store.last_optime == OpTime(-1, 0)
    assert store.oplog.truncate_old() == 0
    with store.unit() as unit:
        unit.noop(doc(1))
        assert unit.commit() == store.oplog.first == store.oplog.last


def test_the_terms_of_a_log_never_fall() -> None:
    leader, follower = store_on(), store_on()
    for store in (leader, follower):
        assert store.oplog is not None
        store.oplog.term = 3
    coll = make(leader, "db.c", doc(1))
    assert leader.oplog is not None
    leader.oplog.term = 2
    with pytest.raises(AssertionError, match="terms never fall"):
        insert(leader, coll, doc(2))
    make(follower, "db.other", doc(1))
    stale = store_on()
    assert stale.oplog is not None
    stale.oplog.term = 1
    stale.oplog.observe(follower.last_optime.timestamp)
    make(stale, "db.late", doc(1))
    with pytest.raises(AssertionError, match="terms never fall"):
        apply_entry(follower, entries(stale)[0])


def test_only_a_primary_makes_entries() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    assert store.oplog is not None
    last = store.last_optime
    store.oplog.writable = False
    assert not store.writable
    with pytest.raises(CommandError) as refused:
        insert(store, coll, doc(2))
    assert refused.value.code == Code.NotWritablePrimary
    with store.unit() as unit, pytest.raises(CommandError):
        store.drop_collection(unit, "db.c")
    assert store.collection("db.c") is coll
    assert (store.last_optime, coll.count) == (last, 1)
    store.oplog.writable = True
    insert(store, coll, doc(2))
    assert store.last_optime > last


def test_a_log_knows_which_entries_it_holds() -> None:
    store = store_on()
    make(store, "db.c", doc(1))
    assert store.oplog is not None
    last = store.last_optime
    assert store.oplog.holds(last)
    assert not store.oplog.holds(OpTime(last.term + 1, last.timestamp))
    assert not store.oplog.holds(OpTime(last.term, last.timestamp + 1))
    assert store.oplog.holds(OpTime(last.term, 5)), "it was truncated"
