"""Retryable writes: each statement once, also across restarts and rollbacks."""

from __future__ import annotations

import pytest

from docstore.bson import from_python
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.collection.unit_of_work import Image
from docstore.deferred_free import DEFERRED_FREE
from docstore.errors import Code, CommandError
from docstore.key_layout import SESSION_PREFIX
from docstore.optime import OpTime
from docstore.storage import Family, open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import doc, entries, make, plain, store_on

LSID = bytes(range(16)) + b"u" * 32


def run(store: Store, txn_number: int, *statements: int, lsid: bytes = LSID) -> list[OpTime]:
    """One insert for each statement number, all in one unit; their optimes."""
    coll = store.catalog.collections["db.c"]
    last = store.last_optime.timestamp
    with store.unit(session=SessionWrite(lsid, txn_number)) as unit:
        for number in statements:
            unit.insert(coll, doc(f"{lsid[0]}.{txn_number}.{number}"), stmt_id=number)
        unit.commit()
    return [OpTime.from_document(plain(entry)) for entry in entries(store, last)]


def test_statements_are_known_by_their_number_and_transaction() -> None:
    store = store_on()
    make(store, "db.c")
    first, second = run(store, 5, 0, 1)
    assert store.sessions.statement(LSID, 5, 0) == first
    assert store.sessions.statement(LSID, 5, 1) == second
    assert store.sessions.statement(LSID, 5, 2) is None
    assert store.sessions.statement(LSID, 6, 0) is None
    assert store.sessions.statement(b"x" * 48, 5, 0) is None


@pytest.mark.parametrize("numbers", [[4, 5, 6, 7], [4, 6, 5, 9], [0]])
def test_statements_that_are_logged_together_are_known_one_by_one(numbers: list[int]) -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    coll = make(store, "db.c")
    before = store.last_optime.timestamp
    with store.unit(session=SessionWrite(LSID, 5)) as unit:
        assert unit.insert_each(coll, [doc(f"{number}") for number in numbers], numbers)
        unit.commit()
    optimes = [OpTime.from_document(plain(entry)) for entry in entries(store, before)]
    assert not store.sessions.none_executed(LSID, 5, [numbers[-1], 100])
    assert store.sessions.none_executed(LSID, 5, [100, 101])
    for reader in (store, store_on(engine)):
        assert [reader.sessions.statement(LSID, 5, number) for number in numbers] == optimes
        assert reader.sessions.statement(LSID, 5, 100) is None


def test_a_new_transaction_number_forgets_the_statements_before() -> None:
    store = store_on()
    make(store, "db.c")
    run(store, 5, 0)
    (newer,) = run(store, 6, 0)
    assert store.sessions.statement(LSID, 6, 0) == newer
    assert store.sessions.statement(LSID, 5, 0) is None


def test_an_older_transaction_number_is_refused() -> None:
    store = store_on()
    make(store, "db.c")
    run(store, 5, 0)
    with pytest.raises(CommandError) as refused:
        run(store, 4, 0)
    assert refused.value.code == Code.TransactionTooOld
    run(store, 5, 1)


def test_entries_carry_the_session_and_the_statement_before() -> None:
    store = store_on()
    make(store, "db.c")
    first, second = run(store, 5, 0, 7)
    old, new = (plain(entry) for entry in entries(store)[-2:])
    assert list(new) == [
        "lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "stmtId", "ts", "t", "v", "wall", "prevOpTime",
    ]  # fmt: skip
    assert bytes(new["lsid"]["id"]) == LSID[:16]
    assert bytes(new["lsid"]["uid"]) == LSID[16:]
    assert (new["txnNumber"], new["stmtId"]) == (5, 7)
    assert OpTime.from_document(old["prevOpTime"]) == OpTime(-1, 0)
    assert OpTime.from_document(new["prevOpTime"]) == first
    assert OpTime.from_document(new) == second


def test_statements_survive_a_restart() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    make(store, "db.c")
    made = run(store, 5, 0, 1) + run(store, 5, 2)
    again = store_on(engine)
    assert [again.sessions.statement(LSID, 5, number) for number in range(4)] == [*made, None]
    with pytest.raises(CommandError):
        again.sessions.check(LSID, 4)
    more = run(again, 5, 3)
    assert store_on(engine).sessions.statement(LSID, 5, 3) == more[0]


def test_a_rollback_takes_statements_back() -> None:
    store = store_on()
    make(store, "db.c")
    first, second = run(store, 5, 0, 1)
    run(store, 6, 0)
    roll_back(store, second)
    assert store.sessions.statement(LSID, 5, 1) == second
    roll_back(store, first)
    assert [store.sessions.statement(LSID, 5, number) for number in (0, 1)] == [first, None]
    run(store, 5, 1)


def test_an_aborted_unit_has_executed_nothing() -> None:
    store = store_on()
    coll = make(store, "db.c")
    with store.unit(session=SessionWrite(LSID, 5)) as unit:
        unit.insert(coll, doc(1), stmt_id=0)
    assert store.sessions.statement(LSID, 5, 0) is None


def test_a_history_that_has_left_the_oplog_is_admitted() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    make(store, "db.c")
    made = run(store, 5, 0, 1)
    assert store.oplog is not None
    store.discard_undo(store.last_optime)
    store.oplog.max_bytes = 0
    store.oplog.truncate_old()
    again = store_on(engine)
    assert again.sessions.statement(LSID, 5, 1) == made[1]
    with pytest.raises(CommandError) as refused:
        again.sessions.statement(LSID, 5, 0)
    assert refused.value.code == 217


def test_operations_without_a_statement_number_leave_the_session_alone() -> None:
    store = store_on()
    coll = make(store, "db.c")
    with store.unit(session=SessionWrite(LSID, 5)) as unit:
        unit.insert(coll, doc(1))
        unit.commit()
    assert store.engine.get(Family.META, SESSION_PREFIX + LSID) is None
    assert "lsid" not in plain(entries(store)[-1])


@pytest.mark.parametrize("field", ["preImage", "postImage"])
def test_the_image_of_a_retried_answer_is_logged_before_its_entry(field: str) -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1))
    found = coll.by_id(store.engine, from_python(1))
    assert found is not None
    with store.unit(session=SessionWrite(LSID, 5)) as unit:
        unit.replace(coll, *found, doc(1, x=2), stmt_id=0, image=Image(field, doc(1, image=True)))
        optime = unit.commit()
    image, entry = (plain(raw) for raw in entries(store)[-2:])
    assert (image["op"], image["ns"], image["o"]) == ("n", "", {"_id": 1, "image": True})
    assert OpTime.from_document(entry[field + "OpTime"]) == OpTime.from_document(image)
    assert store.sessions.statement(LSID, 5, 0) == optime == OpTime.from_document(entry)
    roll_back(store, OpTime.from_document(image))
    assert list(coll.documents(store.engine)) == [doc(1, x=1)]
    assert store.sessions.statement(LSID, 5, 0) is None


def test_rows_of_long_ago_are_reaped() -> None:
    now = [1_700_000_000.0]
    engine = open_engine("inMemory", "")
    store = store_on(engine, clock=lambda: now[0])
    make(store, "db.c")
    run(store, 5, 0, lsid=b"old" * 16)
    now[0] += 1000
    run(store, 5, 0, lsid=b"new" * 16)
    assert store.sessions.reap(int((now[0] - 10) * 1000)) == 1
    assert store.sessions.reap(int((now[0] - 10) * 1000)) == 0
    assert store.sessions.statement(b"old" * 16, 5, 0) is None
    assert store.sessions.statement(b"new" * 16, 5, 0) is not None


def test_many_statements_are_let_go_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_on()
    make(store, "db.c")
    run(store, 5, *range(3_000))
    monkeypatch.setattr(DEFERRED_FREE, "wake", lambda: None)
    run(store, 6, 0)
    assert not DEFERRED_FREE.sweep(lambda: 0.0, 0.0)
    assert DEFERRED_FREE.sweep(lambda: 0.0, 1.0)
    assert store.sessions.statement(LSID, 5, 0) is None


def test_one_entry_may_carry_out_several_statements() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    coll = make(store, "db.c")
    with store.unit(session=SessionWrite(LSID, 5)) as unit:
        unit.insert(coll, doc("several"), stmt_id=(2, 3, 7))
        unit.insert(coll, doc("one"), stmt_id=(8,))
        unit.commit()
    several, one = entries(store)[-2:]
    assert (plain(several)["stmtId"], plain(one)["stmtId"]) == ([2, 3, 7], 8)
    for reader in (store, store_on(engine)):
        known = [number for number in range(10) if reader.sessions.statement(LSID, 5, number) is not None]
        assert known == [2, 3, 7, 8]
