"""Transactions that are prepared: in the log, on members that follow it, through restarts and rollbacks, and as of when
they count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import bson
import pytest

from docstore.bson import document_to_python
from docstore.collection.collection import Collection
from docstore.collection.oplog import operations
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.oplog.earlier_state import EarlierState
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.transaction.store import TransactionStore, prepared_store
from docstore.errors import Code, CommandError
from docstore.optime import OpTime, unpack_timestamp
from docstore.storage import open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, doc, entries, insert, make, read, remove, spec, store_on, update

LSID = bytes(range(16)) + b"u" * 32
SESSION = SessionWrite(LSID, 3)
INDEXES = (spec(("a", 1)), spec(("u", 1), unique=True, sparse=True))


def coll_of(store: Store) -> Collection:
    found = store.collection("db.c")
    assert found is not None
    return found


def prepared(store: Store) -> tuple[TransactionStore, OpTime]:
    """One that inserts, changes and removes, and is prepared."""
    transaction = TransactionStore(store, store.engine.snapshot(), newest=True)
    mine = coll_of(transaction)
    insert(transaction, mine, doc(3, a=0, u=7))
    update(transaction, mine, doc(1, a=5))
    remove(transaction, mine, 2)
    return transaction, transaction.prepare(SESSION)


def fresh(path: str = "") -> Store:
    store = store_on(open_engine("rocksdb", path, cache_bytes=1 << 20)) if path else store_on()
    make(store, "db.c", doc(1, a=1), doc(2, a=2), indexes=INDEXES)
    return store


BEFORE = [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]
AFTER = [{"_id": 1, "a": 5}, {"_id": 3, "a": 0, "u": 7}]


def follow(follower: Store, store: Store) -> None:
    """Apply what the follower has not got."""
    for entry in entries(store)[len(entries(follower)) :]:
        apply_entry(follower, entry)


def test_it_is_logged_as_the_reference_does() -> None:
    store = fresh()
    transaction, optime = prepared(store)
    entry = document_to_python(entries(store)[-1])
    assert list(entry["o"]) == ["applyOps", "prepare"]
    assert [each["op"] for each in entry["o"]["applyOps"]] == ["i", "u", "d"]
    assert (entry["op"], entry["ns"], entry["txnNumber"], entry["prevOpTime"]["t"]) == ("c", "admin.$cmd", 3, -1)
    decided = transaction.decide(SESSION, optime.timestamp + 5)
    entry = document_to_python(entries(store)[-1])
    assert entry["o"] == {
        "commitTransaction": 1, "commitTimestamp": unpack_timestamp(optime.timestamp + 5), "prepared": True
    }  # fmt: skip
    assert entry["prevOpTime"] == optime.to_document()
    assert entry["ts"] == unpack_timestamp(decided.timestamp)


@pytest.mark.parametrize("committed", [True, False])
def test_it_has_no_effect_before_it_is_decided(committed: bool) -> None:
    store = fresh()
    transaction, optime = prepared(store)
    assert read(coll_of(store), store.engine) == BEFORE
    with pytest.raises(WriteConflict):
        update(store, coll_of(store), doc(1, a=9))
    assert store.sessions.is_prepared_at(optime.timestamp)
    assert not store.sessions.is_prepared_at(optime.timestamp - 1)
    with pytest.raises(CommandError) as refused:
        store.sessions.check(LSID, 4)
    assert refused.value.code == Code.PreparedTransactionInProgress
    transaction.decide(SESSION, optime.timestamp if committed else None)
    assert read(coll_of(store), store.engine) == (AFTER if committed else BEFORE)
    assert not store.sessions.prepared
    assert (store.sessions.state(LSID).committed, store.sessions.state(LSID).aborted) == (committed, not committed)
    assert store.claims.keys == {}
    check(store)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("parts", [1, 3])
def test_who_follows_the_log_can_take_it_over(committed: bool, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_BYTES", 16 << 20 if parts == 1 else 1)
    store, follower = fresh(), store_on()
    _, optime = prepared(store)
    follow(follower, store)
    assert read(coll_of(follower), follower.engine) == BEFORE
    known = follower.sessions.prepared[LSID]
    assert (known.number, known.optime) == (3, optime)
    assert known.first == store.sessions.oldest_needed == follower.sessions.oldest_needed
    taken = prepared_store(follower, known)
    with pytest.raises(WriteConflict):
        remove(follower, coll_of(follower), 2)
    for document in (doc(3, a=9), doc(4, u=7)):
        with pytest.raises(WriteConflict):
            insert(follower, coll_of(follower), document)
        other = TransactionStore(follower, follower.engine.snapshot(), newest=True)
        with pytest.raises(WriteConflict):
            insert(other, coll_of(other), document)
        other.abort()
    with pytest.raises(WriteConflict):
        follower.claims.refuse_change("db.c")
    taken.decide(SESSION, optime.timestamp if committed else None)
    assert read(coll_of(follower), follower.engine) == (AFTER if committed else BEFORE)
    check(follower)
    third = store_on()
    follow(third, follower)
    assert read(coll_of(third), third.engine) == (AFTER if committed else BEFORE)
    assert third.sessions.state(LSID).row == follower.sessions.state(LSID).row
    assert not third.sessions.prepared
    check(third)


def test_it_survives_a_restart(tmp_path: object) -> None:
    store = fresh(f"{tmp_path}/db")
    _, optime = prepared(store)
    store.engine.close()
    again = store_on(open_engine("rocksdb", f"{tmp_path}/db", cache_bytes=1 << 20))
    taken = prepared_store(again, again.sessions.prepared[LSID])
    taken.decide(SESSION, optime.timestamp)
    assert read(coll_of(again), again.engine) == AFTER
    check(again)
    again.engine.close()


@pytest.mark.parametrize("by", ["primary", "follower"])
def test_a_rollback_takes_back_the_decision_and_then_that_it_was_prepared(by: str) -> None:
    store = fresh()
    before = store.last_optime
    transaction, optime = prepared(store)
    transaction.decide(SESSION, optime.timestamp)
    member = store
    if by == "follower":
        member = store_on()
        follow(member, store)
    roll_back(member, optime)
    assert read(coll_of(member), member.engine) == BEFORE
    assert member.sessions.prepared[LSID].optime == optime
    taken = prepared_store(member, member.sessions.prepared[LSID])
    assert read(coll_of(taken), taken.engine) == AFTER
    taken.abort()
    roll_back(member, before)
    assert not member.sessions.prepared
    assert member.sessions.state(LSID).txn_number == -1
    check(member)


def state_at(store: Store, at: int) -> list[dict[str, object]]:
    oplog = store.oplog
    assert oplog is not None
    entry = bson.decode(next(oplog.scan_back(store.engine, at + 1)))
    optime = OpTime(entry["t"], entry["ts"].time << 32 | entry["ts"].inc)
    state = EarlierState(store.engine.snapshot(), optime, at)
    clock: Callable[[], float] = time.monotonic
    assert state.step(clock, clock() + 60)
    found = sorted(read(coll_of(store), state), key=lambda each: each["_id"])
    state.close()
    return found


@pytest.mark.parametrize("by", ["primary", "follower"])
def test_it_counts_as_of_the_time_that_was_agreed(by: str) -> None:
    """Although that is before the entry says so, and others have written since."""
    store = fresh()
    transaction, optime = prepared(store)
    insert(store, coll_of(store), doc(8))
    insert(store, coll_of(store), doc(9))
    other = store.last_optime
    decided = transaction.decide(SESSION, other.timestamp)
    update(store, coll_of(store), doc(1, a=6))
    member = store
    if by == "follower":
        member = store_on()
        follow(member, store)
    assert [each["_id"] for each in state_at(member, other.timestamp)] == [1, 3, 8, 9]
    assert state_at(member, other.timestamp)[0]["a"] == 5
    assert [each["_id"] for each in state_at(member, other.timestamp - 1)] == [1, 2, 8]
    assert [each["_id"] for each in state_at(member, optime.timestamp)] == [1, 2]
    assert state_at(member, decided.timestamp)[0]["a"] == 5


def test_the_log_keeps_what_is_needed_of_it() -> None:
    store = fresh()
    transaction, optime = prepared(store)
    for number in range(10, 60):
        insert(store, coll_of(store), doc(number))
    oplog = store.oplog
    assert oplog is not None
    oplog.max_bytes, oplog.commit_limit = 1, store.last_optime.timestamp
    oplog.truncate_old(needed=store.sessions.oldest_needed)
    assert oplog.first == optime
    transaction.decide(SESSION, optime.timestamp)
    assert store.sessions.oldest_needed is None
