"""Transactions on a store: what they see, what they keep others from, what is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.collection.changes import Commit
from docstore.collection.oplog import operations
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.collection.transaction.claims import WriteConflict
from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.storage import Family
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
from tests.unit.collection.transacting import INDEXES, LSID, begin, coll_of, commit, follower_of


def test_what_it_writes_is_seen_by_it_alone_until_it_commits() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, a=1), doc(2, a=2), indexes=INDEXES)
    transaction = begin(store)
    mine = coll_of(transaction)
    insert(transaction, mine, doc(3, a=0))
    update(transaction, mine, doc(1, a=5))
    remove(transaction, mine, 2)
    assert read(coll, store.engine) == [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]
    assert read(mine, transaction.engine) == [{"_id": 1, "a": 5}, {"_id": 3, "a": 0}]
    assert coll.count == 2
    commit(transaction)
    assert read(coll, store.engine) == [{"_id": 1, "a": 5}, {"_id": 3, "a": 0}]
    check(store)
    assert store.sessions.state(LSID).committed


def test_it_sees_nothing_of_what_others_write_meanwhile() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1), indexes=INDEXES)
    transaction = begin(store)
    insert(store, coll, doc(2))
    remove(store, coll, 1)
    assert read(coll_of(transaction), transaction.engine) == [{"_id": 1}]
    assert commit(transaction) == store.last_optime, "where it is known that it has ended"
    assert read(coll, store.engine) == [{"_id": 2}]
    check(store)


def test_a_snapshot_of_it_stays_as_it_was() -> None:
    store = store_on()
    make(store, "db.c", doc(1))
    transaction = begin(store)
    coll = coll_of(transaction)
    insert(transaction, coll, doc(2))
    snapshot = transaction.engine.snapshot()
    items = coll.documents(snapshot)
    insert(transaction, coll, doc(3))
    remove(transaction, coll, 1)
    assert [plain(raw)["_id"] for raw in items] == [1, 2]
    assert [plain(raw)["_id"] for raw in coll.documents(snapshot)] == [1, 2]
    transaction.abort()
    assert [plain(raw)["_id"] for raw in coll.documents(snapshot)] == [1, 2]
    snapshot.close()


def test_one_that_is_aborted_leaves_nothing() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, a=1), indexes=INDEXES)
    before, log = [list(store.engine.items(family, b"", b"\xff")) for family in Family], len(entries(store))
    transaction = begin(store)
    insert(transaction, coll_of(transaction), doc(2, a=2))
    update(transaction, coll_of(transaction), doc(1, a=9))
    transaction.abort()
    transaction.abort()
    assert [list(store.engine.items(family, b"", b"\xff")) for family in Family] == before
    assert (len(entries(store)), coll.count, store.claims.keys) == (log, 1, {})
    update(store, coll, doc(1, a=3))
    check(store)


@pytest.mark.parametrize(
    "write",
    [
        lambda store, coll: update(store, coll, doc(1, a=2)),
        lambda store, coll: remove(store, coll, 1),
        lambda store, coll: insert(store, coll, doc(2)),
        lambda store, coll: insert(store, coll, doc(9, u=7)),
        lambda store, coll: insert(store, coll, doc(3)),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_who_meets_its_writes_is_refused_until_it_has_ended(write: Any, inside: bool) -> None:
    """A document changed, one that came, one that goes, and the unique keys of both."""
    store = store_on()
    make(store, "db.c", doc(1, u=1), doc(3, u=3), indexes=INDEXES)
    first = begin(store)
    update(first, coll_of(first), doc(1, u=1, a=1))
    insert(first, coll_of(first), doc(2, u=7))
    remove(first, coll_of(first), 3)
    other: Store = begin(store) if inside else store
    with pytest.raises(WriteConflict) as refused:
        write(other, coll_of(other))
    assert (refused.value.over is None) == inside
    commit(first)
    check(store)


def test_a_key_that_was_written_since_its_snapshot_is_a_conflict() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1), doc(2), indexes=INDEXES)
    cases: list[Any] = [
        (lambda: update(store, coll, doc(1, a=2)), lambda tx: update(tx, coll_of(tx), doc(1, a=3))),
        (lambda: remove(store, coll, 2), lambda tx: update(tx, coll_of(tx), doc(2, a=3))),
        (lambda: insert(store, coll, doc(3)), lambda tx: insert(tx, coll_of(tx), doc(3))),
        (lambda: insert(store, coll, doc(4, u=5)), lambda tx: insert(tx, coll_of(tx), doc(5, u=5))),
        (lambda: remove(store, coll, 4), lambda tx: insert(tx, coll_of(tx), doc(6, u=5))),
    ]
    for others, own in cases[:4]:
        transaction = begin(store)
        coll_of(transaction)
        others()
        with pytest.raises(WriteConflict):
            own(transaction)
        transaction.abort()
    transaction = begin(store)
    coll_of(transaction)
    cases[4][0]()
    with pytest.raises(CommandError) as refused:
        cases[4][1](transaction)
    assert refused.value.code == Code.DuplicateKey, "in its snapshot the key is taken"
    transaction.abort()
    check(store)


def test_a_collection_that_it_makes_is_made_when_it_commits() -> None:
    store = store_on()
    make(store, "db.c")
    transaction = begin(store)
    with transaction.unit() as unit:
        coll = transaction.create_collection(unit, "db.new")
        transaction.create_index(unit, coll, spec(("a", 1), unique=True))
        unit.commit()
    insert(transaction, coll, doc(1, a=1), doc(2, a=[2, 3]))
    assert store.collection("db.new") is None
    with pytest.raises(WriteConflict), store.unit() as unit:
        store.create_collection(unit, "db.new")
    with pytest.raises(CommandError) as refused:
        insert(transaction, coll, doc(3, a=3))
    assert refused.value.code == Code.DuplicateKey
    make(store, "db.between")
    commit(transaction)
    assert [each["_id"] for each in read(coll_of(store, "db.new"), store.engine)] == [1, 2]
    check(store)
    again = Store(store.engine, clock=store.clock)
    again.attach_oplog(1 << 30)
    assert sorted(again.namespaces()) == sorted(store.namespaces())
    check(again)
    make(again, "db.later", doc(1))
    check(again)


def test_a_collection_in_use_keeps_its_name_options_and_indexes() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1), indexes=INDEXES)
    transaction = begin(store)
    coll_of(transaction)
    changes: list[Any] = [
        lambda unit: store.drop_collection(unit, "db.c"),
        lambda unit: store.drop_database(unit, "db"),
        lambda unit: store.rename_collection(unit, "db.c", "db.d"),
        lambda unit: store.drop_index(unit, coll, "a_1"),
    ]
    for change in changes:
        with pytest.raises(WriteConflict), store.unit() as unit:
            change(unit)
    with pytest.raises(WriteConflict):
        store.build_index(coll, [spec(("z", 1))])
    transaction.abort()
    for change in changes[:0:-1]:
        with store.unit() as unit:
            change(unit)


def test_a_collection_that_changed_since_the_snapshot_cannot_be_used() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1), indexes=INDEXES)
    make(store, "db.dropped")
    transactions = [begin(store) for _ in range(3)]
    with store.unit() as unit:
        store.drop_index(unit, coll, "a_1")
        store.drop_collection(unit, "db.dropped")
        unit.commit()
    make(store, "db.made")
    for transaction, ns in zip(transactions, ("db.c", "db.dropped", "db.made"), strict=True):
        with pytest.raises(CommandError) as refused:
            transaction.collection(ns)
        assert refused.value.code == Code.SnapshotUnavailable
        transaction.abort()


def test_arrays_that_it_meets_are_known_to_all_at_once() -> None:
    """Else a writer outside would take the index for one without arrays, and say nothing of them on disk."""
    store = store_on()
    coll = make(store, "db.c", doc(1, a=1), indexes=INDEXES)
    transaction = begin(store)
    insert(transaction, coll_of(transaction), doc(2, a=[1, 2]))
    assert coll.indexes["a_1"].multikey
    insert(store, coll, doc(3, a=[3, 4]))
    transaction.abort()
    again = Store(store.engine, clock=store.clock)
    assert coll_of(again).indexes["a_1"].multikey
    check(store)


def test_its_entry_is_applied_and_undone_as_a_whole() -> None:
    store = store_on()
    make(store, "db.c", doc(1, a=1), doc(2, a=[1]), indexes=INDEXES)
    make(store, "db.d", doc(1))
    common = store.last_optime
    before = [list(store.engine.items(family, b"", b"\xff")) for family in (Family.RECORDS, Family.INDEXES)]
    rows = read(coll_of(store), store.engine), read(coll_of(store, "db.d"), store.engine)
    transaction = begin(store)
    insert(transaction, coll_of(transaction), doc(3, a=4))
    update(transaction, coll_of(transaction), doc(3, a=5))
    remove(transaction, coll_of(transaction, "db.d"), 1)
    remove(transaction, coll_of(transaction), 2)
    with transaction.unit() as unit:
        made = transaction.create_collection(unit, "db.new")
        unit.commit()
    insert(transaction, made, doc(7))
    optime = commit(transaction, 4)
    (entry,) = entries(store, common.timestamp)
    assert OpTime.from_document(plain(entry)) == optime
    follower = follower_of(store)
    for ns in ("db.c", "db.d", "db.new"):
        assert sorted(coll_of(follower, ns).documents(follower.engine)) == sorted(
            coll_of(store, ns).documents(store.engine)
        )
    state = follower.sessions.state(LSID)
    assert (state.txn_number, state.committed, state.last) == (4, True, optime)
    for member in (store, follower):
        check(member)
        lost: list[Any] = []
        assert roll_back(member, common, lambda ns, raw, lost=lost: lost.append((ns, plain(raw)["_id"]))) == 1
        assert sorted(lost) == [("db.c", 3), ("db.new", 7)]
        check(member)
        assert (read(coll_of(member), member.engine), read(coll_of(member, "db.d"), member.engine)) == rows
        assert member.sessions.state(LSID).txn_number == -1
        assert member.collection("db.new") is None
    assert [list(store.engine.items(family, b"", b"\xff")) for family in (Family.RECORDS, Family.INDEXES)] == before


def test_its_operations_name_documents_of_a_sharded_collection_by_the_shard_key_first() -> None:
    store = store_on()
    store.document_keys["db.c"] = DocumentKey(("a",))
    make(store, "db.c", doc(1, a=1), doc(2))
    common = store.last_optime
    transaction = begin(store)
    insert(transaction, coll_of(transaction), doc(3, a=3))
    with transaction.unit() as unit:
        unit.insert_all(coll_of(transaction), [doc(4, a=4)])
        unit.commit()
    update(transaction, coll_of(transaction), doc(1, a=1, b=1))
    remove(transaction, coll_of(transaction), 2)
    commit(transaction)
    (entry,) = entries(store, common.timestamp)
    operations = plain(entry)["o"]["applyOps"]
    assert [list(each.get("o2", each["o"]).items()) for each in operations] == [
        [("a", 3), ("_id", 3)], [("a", 4), ("_id", 4)], [("a", 1), ("_id", 1)], [("_id", 2)],
    ]  # fmt: skip
    follower = follower_of(store)
    assert sorted(coll_of(follower).documents(follower.engine)) == sorted(coll_of(store).documents(store.engine))


def test_one_too_large_for_an_entry_has_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_BYTES", 300)
    store = store_on()
    make(store, "db.c")
    common = store.last_optime
    transaction = begin(store)
    insert(transaction, coll_of(transaction), *(doc(number, text="x" * 40) for number in range(20)))
    commit(transaction)
    log = [plain(entry) for entry in entries(store, common.timestamp)]
    assert len(log) > 5
    assert all(entry["o"].get("partialTxn") for entry in log[:-1])
    assert log[-1]["o"]["count"] == 20
    assert log[0]["prevOpTime"]["t"] == -1
    assert [entry["prevOpTime"]["ts"] for entry in log[1:]] == [entry["ts"] for entry in log[:-1]]
    follower = store_on()
    for place, entry in enumerate(entries(store), 1):
        apply_entry(follower, entry)
        complete = place == len(entries(store))
        assert coll_of(follower).count == (20 if complete else 0) if place > 1 else True
    assert read(coll_of(follower), follower.engine) == read(coll_of(store), store.engine)
    assert follower.sessions.state(LSID).committed
    check(follower)
    for member in (store, follower):
        roll_back(member, common)
        assert coll_of(member).count == 0
        check(member)


def test_listeners_hear_of_its_changes_when_it_commits() -> None:
    store = store_on()
    make(store, "db.c", doc(1))
    transaction = begin(store)
    insert(transaction, coll_of(transaction), doc(2))
    heard: list[Commit] = []
    store.subscribe(heard.append)
    update(transaction, coll_of(transaction), doc(1, a=1))
    assert not heard
    optime = commit(transaction)
    assert [(one.optime, [change.op for change in one.changes]) for one in heard] == [(optime, ["i", "u"])]


def test_one_that_cannot_be_written_is_aborted() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    assert store.oplog is not None
    transaction = begin(store)
    update(transaction, coll_of(transaction), doc(1, a=1))
    store.oplog.writable = False
    with pytest.raises(CommandError) as refused:
        commit(transaction)
    assert refused.value.code == Code.NotWritablePrimary
    store.oplog.writable = True
    assert transaction.ended
    assert read(coll, store.engine) == [{"_id": 1}]
    update(store, coll, doc(1, a=2))
    check(store)


def test_nothing_is_committed_or_prepared_in_what_changes_hands() -> None:
    """Its statements were let in before that was so; what was prepared before is decided all the same."""
    store = store_on()
    coll = make(store, "db.c", doc(1), indexes=INDEXES)
    prepared, others = begin(store), [begin(store), begin(store)]
    insert(prepared, coll_of(prepared), doc(2))
    prepared.prepare(SessionWrite(LSID, 1))
    store.claims.closed = "db.c".__eq__
    for number, end in enumerate((others[0].commit, others[1].prepare)):
        insert(others[number], coll_of(others[number]), doc(3 + number))
        with pytest.raises(CommandError) as caught:
            end(SessionWrite(bytes(48), 1))
        assert caught.value.code == Code.LockTimeout
        assert others[number].ended
    prepared.decide(SessionWrite(LSID, 1), store.last_optime.timestamp)
    assert read(coll, store.engine) == [{"_id": 1}, {"_id": 2}]
    check(store)
