"""Rollback: what was done after the common point has not been done."""

from __future__ import annotations

from random import Random

import pytest

from docstore.bson import from_python
from docstore.collection.oplog.earlier_state import EarlierState
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.rollback import UnrecoverableRollback
from docstore.errors import CommandError
from docstore.optime import OpTime
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
    ticking,
    update,
)


def test_documents_indexes_and_counters_are_as_they_were() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=[1, 2]), doc(2, x=3), indexes=(spec(("x", 1), unique=True),))
    common = store.last_optime
    before = list(store.engine.items(Family.INDEXES, b"", b"\xff"))
    remove(store, coll, 1)
    update(store, coll, doc(2, x=1, y="z"))
    insert(store, coll, doc(3, x=2))
    assert roll_back(store, common) == 3
    assert read(coll, store.engine) == [{"_id": 1, "x": [1, 2]}, {"_id": 2, "x": 3}]
    assert list(store.engine.items(Family.INDEXES, b"", b"\xff")) == before
    assert store.last_optime == common
    check(store)


def test_what_is_lost_is_told_once_with_its_last_state() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=0), doc(2), doc(3))
    common = store.last_optime
    for n in range(1, 4):
        update(store, coll, doc(1, x=n))
    remove(store, coll, 2)
    insert(store, coll, doc(4))
    insert(store, coll, doc(5))
    remove(store, coll, 5)
    lost: list[tuple[str, dict[str, object]]] = []
    roll_back(store, common, lambda ns, raw: lost.append((ns, plain(raw))))
    assert lost == [("db.c", {"_id": 4}), ("db.c", {"_id": 1, "x": 3})]


def test_a_change_of_a_type_alone_is_undone() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), doc(2.0, x=2.0), indexes=(spec(("x", 1), unique=True),))
    common = store.last_optime
    before = list(store.engine.items(Family.INDEXES, b"", b"\xff"))
    update(store, coll, doc(1, x=1.0))
    update(store, coll, doc(2, x=2))
    assert [key for key, _ in before] == [key for key, _ in store.engine.items(Family.INDEXES, b"", b"\xff")]
    assert list(store.engine.items(Family.INDEXES, b"", b"\xff")) != before
    assert roll_back(store, common) == 2
    assert list(store.engine.items(Family.INDEXES, b"", b"\xff")) == before
    check(store)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_large_documents_are_as_they_were_at_each_entry(one_by_one: bool) -> None:
    rng = Random(3)
    store = store_on()
    fields: dict[str, object] = {f"f{number}": number for number in range(100)}
    coll = make(store, "db.c", doc(0, **fields), doc(1, **fields), indexes=(spec(("f99", 1)),))
    states = [(store.last_optime, read(coll, store.engine))]
    newest: list[dict[str, object]] = [dict(fields), dict(fields)]
    for step in range(60):
        place = rng.randrange(2)
        if step % 20 == 19:
            remove(store, coll, place)
            insert(store, coll, doc(place, **newest[place]))
        else:
            for _ in range(rng.choice((1, 1, 2))):
                changed = rng.choice((rng.randrange(1_000), rng.random(), "text", "a longer text"))
                newest[place][f"f{rng.randrange(100)}"] = changed
            update(store, coll, doc(place, **newest[place]))
        states.append((store.last_optime, read(coll, store.engine)))
    for optime, documents in states[::7]:
        state = EarlierState(store.engine.snapshot(), optime)
        assert state.step(lambda: 0.0, 1.0)
        assert read(coll, state) == documents
        state.close()
    for optime, documents in states[::-9]:
        roll_back(store, optime, one_by_one=one_by_one)
        assert read(coll, store.engine) == documents
        check(store)


def test_a_drop_is_undone_with_everything_in_it() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    common = store.last_optime
    with store.unit() as unit:
        store.drop_database(unit, "db")
        unit.commit()
    assert store.collection("db.c") is None
    assert not store.reclaim(0.0) or store.catalog.garbage
    roll_back(store, common)
    assert store.collection("db.c") is not None
    assert store.reclaim(float("inf"))
    restored = store.catalog.collections["db.c"]
    assert restored.uuid == coll.uuid
    assert read(restored, store.engine) == [{"_id": 1, "x": 1}]
    check(store)


def test_a_drop_behind_the_commit_point_gives_its_space_back() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    with store.unit() as unit:
        store.drop_collection(unit, "db.c")
        unit.commit()
    assert store.reclaim(float("inf"))
    assert coll.record(store.engine, 1) is not None
    store.discard_undo(store.last_optime)
    assert store.reclaim(float("inf"))
    assert not list(store.engine.items(Family.RECORDS, b"", b"\xff"))
    assert not list(store.engine.items(Family.INDEXES, b"", b"\xff"))
    assert [key[:1] for key in store.engine.keys(Family.META, b"", b"\xff")] == [b"k", b"n"]


def test_idents_are_not_used_twice_after_a_rollback() -> None:
    store = store_on()
    make(store, "db.a")
    common = store.last_optime
    lost = make(store, "db.b", doc(1))
    roll_back(store, common)
    assert store.collection("db.b") is None
    again = make(store, "db.b")
    assert again.ident > lost.ident
    check(store)


def test_a_rename_over_a_target_is_undone() -> None:
    store = store_on()
    first, second = make(store, "db.a", doc(1)), make(store, "db.b", doc(2))
    common = store.last_optime
    with store.unit() as unit:
        store.rename_collection(unit, "db.a", "db.b", drop_target=True)
        unit.commit()
    insert(store, first, doc(3))
    roll_back(store, common)
    assert read(store.catalog.collections["db.a"], store.engine) == [{"_id": 1}]
    assert read(store.catalog.collections["db.b"], store.engine) == [{"_id": 2}]
    assert (first.ns, store.catalog.collections["db.b"].uuid) == ("db.a", second.uuid)
    check(store)


def test_a_collection_stays_the_same_object() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    common = store.last_optime
    insert(store, coll, doc(2))
    roll_back(store, common)
    assert store.collection("db.c") is coll
    assert coll.count == 1
    insert(store, coll, doc(2))
    check(store)


def test_a_multikey_index_is_none_again() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    common = store.last_optime
    update(store, coll, doc(1, x=[1, 2]))
    assert coll.indexes["x_1"].multikey
    roll_back(store, common)
    assert not coll.indexes["x_1"].multikey


def test_a_finished_index_build_is_undone_and_its_tree_removed() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1))
    common = store.last_optime
    build = store.build_index(coll, [spec(("x", 1))])
    assert build.step(float("inf"))
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
    assert list(coll.indexes) == ["_id_", "x_1"]
    roll_back(store, common)
    assert list(coll.indexes) == ["_id_"]
    assert not store.catalog.garbage
    assert len(list(store.engine.items(Family.INDEXES, b"", b"\xff"))) == 1


def test_the_common_point_may_lie_inside_a_unit() -> None:
    store = store_on()
    coll = make(store, "db.c")
    last = store.last_optime.timestamp
    insert(store, coll, doc(1), doc(2), doc(3))
    second = entry_optime(entries(store, last)[1])
    assert roll_back(store, second) == 1
    assert read(coll, store.engine) == [{"_id": 1}, {"_id": 2}]
    check(store)


def test_there_is_no_way_behind_the_commit_point() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    first = store.last_optime
    insert(store, coll, doc(2))
    store.discard_undo(store.last_optime)
    with pytest.raises(UnrecoverableRollback):
        roll_back(store, first)
    with pytest.raises(UnrecoverableRollback):
        roll_back(store, OpTime(1, first.timestamp + 10_000_000_000))
    assert coll.count == 2


def test_many_committed_entries_lose_their_undo_records() -> None:
    store = store_on()
    store.undo_history.window = 0
    coll = make(store, "db.c")
    for n in range(300):
        insert(store, coll, doc(n))
        store.discard_undo(store.last_optime)
    assert len(list(store.engine.keys(Family.UNDO, b"", b"\xff"))) < 256


def test_a_rollback_is_finished_by_the_next_process() -> None:
    """Every group is a batch of its own: a crash between two leaves a shorter oplog and a state that fits it."""
    engine = open_engine("inMemory", "")
    store = store_on(engine, clock=ticking())
    coll = make(store, "db.c", doc(0))
    common = store.last_optime
    insert(store, coll, *(doc(n) for n in range(1, 6)))

    def crash(ns: str, raw: bytes) -> None:
        if plain(raw)["_id"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        roll_back(store, common, crash, one_by_one=True)
    again = store_on(engine, clock=ticking())
    check(again)
    assert [found["_id"] for found in read(again.catalog.collections["db.c"], engine)] == [0, 1, 2, 3]
    assert roll_back(again, common) == 3
    check(again)
    found = again.catalog.collections["db.c"].by_id(engine, from_python(0))
    assert found is not None


def test_record_ids_of_what_is_put_back_are_not_given_again() -> None:
    """Where the process began when the documents with the highest ones had gone."""
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    coll = make(store, "db.c", doc(1), doc(2), doc(3))
    common = store.last_optime
    remove(store, coll, 2)
    remove(store, coll, 3)
    store = store_on(engine)
    roll_back(store, common)
    coll = store.collection("db.c")
    assert coll is not None
    insert(store, coll, doc(4))
    assert read(coll, engine) == [{"_id": n} for n in (1, 2, 3, 4)]
    check(store)


def test_the_local_database_stays_as_it_is() -> None:
    """Also where a unit has changed both: what is not in the oplog is not undone."""
    store = store_on()
    coll = make(store, "db.c")
    old = make(store, "local.old", doc(1))
    common = store.last_optime
    with store.unit() as unit:
        local = store.create_collection(unit, "local.new")
        store.create_index(unit, local, spec(("x", 1)))
        unit.insert(local, doc(1, x=[1, 2]))
        store.drop_collection(unit, "local.old")
        unit.insert(coll, doc(1))
        unit.commit()
    assert store.reclaim(float("inf"))
    assert old.record(store.engine, 1) is None
    roll_back(store, common)
    assert coll.count == 0
    assert sorted(store.namespaces()) == ["db.c", "local.new"]
    assert read(store.catalog.collections["local.new"], store.engine) == [{"_id": 1, "x": [1, 2]}]
    check(store)


def test_the_highest_identity_is_known_after_a_rollback_without_looking_for_it() -> None:
    """Very many removed ones may stand between the end of the index and the highest that is left."""
    store = store_on()
    coll = make(store, "db.c", doc(1), doc(5))
    common = store.last_optime
    remove(store, coll, 5)
    insert(store, coll, doc(2), doc(4))
    coll.newest_id = None
    roll_back(store, common)
    known = coll.newest_id
    assert known is not None
    assert known >= coll.find_newest_id(store.engine)
    coll.newest_id = known
    with pytest.raises(CommandError):
        insert(store, coll, doc(5))
    insert(store, coll, doc(2), doc(4), doc(6))
    assert read(coll, store.engine) == [{"_id": n} for n in (1, 5, 2, 4, 6)]
    check(store)
