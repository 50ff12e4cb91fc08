"""Write units: atomic, isolated until they commit, unharmed by what they refuse."""

from __future__ import annotations

import bson
import pytest

from docstore.bson import from_python
from docstore.collection.changes import Commit
from docstore.collection.oplog.document_key import DocumentKey, document_key
from docstore.errors import Code, CommandError
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


def test_operations_of_a_unit_see_those_before_them() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    with store.unit() as unit:
        unit.insert(coll, doc(2, x=2))
        found = coll.by_id(unit, from_python(1))
        assert found is not None
        unit.remove(coll, *found)
        assert coll.by_id(unit, from_python(1)) is None
        assert coll.by_id(store.engine, from_python(1)) is not None
        assert [plain(raw)["_id"] for raw in coll.documents(unit)] == [2]
        assert [plain(raw)["_id"] for raw in coll.documents(unit, reverse=True)] == [2]
        assert [plain(raw)["_id"] for raw in coll.documents(store.engine)] == [1]
        index = coll.indexes["x_1"]
        assert len(list(unit.keys(Family.INDEXES, index.prefix, index.end))) == 1
        unit.commit()
    assert read(coll, store.engine) == [{"_id": 2, "x": 2}]
    check(store)


def test_an_aborted_unit_leaves_no_trace() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    before = list(store.engine.items(Family.META, b"", b"\xff"))
    with store.unit() as unit:
        unit.insert(coll, doc(2, x=[1, 2]))
        store.create_collection(unit, "db.d")
        store.rename_collection(unit, "db.c", "db.e")
        store.drop_index(unit, coll, "x_1")
    assert list(store.engine.items(Family.META, b"", b"\xff")) == before
    assert store.namespaces() == ["db.c"]
    assert list(coll.indexes) == ["_id_", "x_1"]
    assert not coll.indexes["x_1"].multikey
    assert (coll.ns, coll.count) == ("db.c", 1)
    assert not store.catalog.garbage
    insert(store, coll, doc(2, x=[1, 2]))
    check(store)


def test_a_refused_operation_leaves_the_unit_as_it_was() -> None:
    store = store_on()
    indexes = (spec(("a", 1)), spec(("u", 1), unique=True), spec(("m", 1), ("n", 1)))
    coll = make(store, "db.c", doc(1, u=1), indexes=indexes)
    with store.unit() as unit:
        unit.insert(coll, doc(2, u=2))
        pending = [dict(changes) for changes in unit.batch.changes]
        for refused in (doc(1), doc(3, a=[1, 2], u=1), doc(3, a=[1, 2], u=2), doc(3, a=[1, 2], u=3, m=[1], n=[1])):
            with pytest.raises(CommandError):
                unit.insert(coll, refused)
        found = coll.by_id(unit, from_python(2))
        assert found is not None
        with pytest.raises(CommandError):
            unit.replace(coll, *found, doc(2, a=[1, 2], u=1))
        assert [dict(changes) for changes in unit.batch.changes] == pending
        unit.commit()
    assert not coll.indexes["a_1"].multikey
    assert coll.count == 2
    check(store)


def test_a_unique_key_given_up_in_the_unit_is_free_in_it() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, u=1), doc(2, u=2), indexes=(spec(("u", 1), unique=True),))
    with store.unit() as unit:
        first, second = (coll.by_id(unit, from_python(n)) for n in (1, 2))
        assert first is not None
        assert second is not None
        unit.remove(coll, *first)
        unit.replace(coll, *second, doc(2, u=1))
        unit.insert(coll, doc(3, u=2))
        with pytest.raises(CommandError, match=r"dup key: \{ u: 2 \}"):
            unit.insert(coll, doc(4, u=2))
        unit.commit()
    check(store)


def test_a_document_may_keep_its_own_unique_key() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, u=[1, 2]), indexes=(spec(("u", 1), unique=True),))
    update(store, coll, doc(1, u=[2, 3, 3]))
    insert(store, coll, doc(2, u=1))
    check(store)


def test_missing_counts_as_null_under_a_unique_key_and_sparse_leaves_it_out() -> None:
    store = store_on()
    dense = make(store, "db.dense", doc(1), indexes=(spec(("u", 1), unique=True),))
    with pytest.raises(CommandError) as refused:
        insert(store, dense, doc(2, u=None))
    assert refused.value.extra == {"keyPattern": {"u": 1}, "keyValue": {"u": None}}
    sparse = make(store, "db.sparse", doc(1), doc(2), indexes=(spec(("u", 1), unique=True, sparse=True),))
    insert(store, sparse, doc(3, u=None))
    with pytest.raises(CommandError, match=r"dup key: \{ u: null \}"):
        insert(store, sparse, doc(4, u=None))
    check(store)


def test_each_operation_is_one_entry_with_its_own_timestamp() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    last = store.last_optime.timestamp
    with store.unit() as unit:
        unit.insert(coll, doc(2))
        unit.insert(coll, doc(3))
        optime = unit.commit()
    new = [plain(entry) for entry in entries(store, last)]
    assert [entry["o"]["_id"] for entry in new] == [2, 3]
    assert new[0]["ts"] < new[1]["ts"]
    assert optime == store.last_optime


def test_entries_have_the_references_fields_in_their_order() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, kept="x" * 100))
    last = store.last_optime.timestamp
    update(store, coll, doc(1, kept="x" * 100, y=1))
    remove(store, coll, 1)
    changed, gone = (plain(entry) for entry in entries(store, last))
    assert list(changed) == ["op", "ns", "ui", "o", "o2", "ts", "t", "v", "wall"]
    assert changed["o"] == {"$v": 2, "diff": {"i": {"y": 1}}}
    assert changed["o2"] == {"_id": 1}
    assert bytes(changed["ui"]) == coll.uuid.bytes
    assert (gone["op"], gone["ns"], gone["o"], gone["v"], gone["t"]) == ("d", "db.c", {"_id": 1}, 2, 1)


def test_entries_of_a_sharded_collection_name_documents_by_the_shard_key_first() -> None:
    """What a document lacks of it is left out; a dotted path is a plain name."""
    store = store_on()
    store.document_keys["db.c"] = DocumentKey(("u", "a.b"))
    coll = make(store, "db.c")
    other = make(store, "db.other")
    last = store.last_optime.timestamp
    insert(store, coll, doc(1, a={"b": 2, "c": 3}, u="x"), doc(2, a=4))
    with store.unit() as unit:
        unit.insert_all(coll, [doc(3, u="y"), doc(4, u="z", a={"b": 5})])
        unit.commit()
    update(store, coll, doc(1, a={"b": 6}, u="x"))
    remove(store, coll, 1)
    insert(store, other, doc(9, u=1))
    made = [plain(entry) for entry in entries(store, last)]
    keys = [
        made[0]["o2"],
        made[1]["o2"],
        *(each["o2"] for each in made[2]["o"]["applyOps"]),
        made[3]["o2"],
        made[4]["o"],
    ]
    assert [list(each.items()) for each in keys] == [
        [("u", "x"), ("a.b", 2), ("_id", 1)],
        [("_id", 2)],
        [("u", "y"), ("_id", 3)],
        [("u", "z"), ("a.b", 5), ("_id", 4)],
        [("u", "x"), ("a.b", 6), ("_id", 1)],
        [("u", "x"), ("a.b", 6), ("_id", 1)],
    ]
    assert made[5]["o2"] == {"_id": 9}


def test_a_shard_key_that_holds_the_identity_is_the_whole_key() -> None:
    raw = doc(1, a=2, b=3)
    assert list(plain(DocumentKey(("b", "_id")).of(raw)).items()) == [("b", 3), ("_id", 1)]
    assert list(plain(DocumentKey(("_id", "a")).of(raw)).items()) == [("_id", 1), ("a", 2)]
    assert list(plain(DocumentKey(("_id.x",)).of(doc({"x": 1, "y": 2}))).items()) == [
        ("_id.x", 1), ("_id", {"x": 1, "y": 2}),
    ]  # fmt: skip
    assert plain(document_key({"db.c": DocumentKey(("a",))}, "db.d", raw)) == {"_id": 1}


def test_migrated_writes_are_marked() -> None:
    store = store_on()
    coll = make(store, "db.c")
    last = store.last_optime.timestamp
    with store.unit(from_migrate=True) as unit:
        unit.insert(coll, doc(1))
        unit.commit()
    assert plain(entries(store, last)[0])["fromMigrate"] is True


def test_the_local_database_and_unlogged_units_leave_the_oplog_alone() -> None:
    store = store_on()
    local = make(store, "local.c", doc(1))
    update(store, local, doc(1, x=1))
    coll = make(store, "db.c")
    last = store.last_optime
    with store.unit(replicated=False) as unit:
        unit.insert(coll, doc(1))
        assert unit.commit() is None
    assert store.last_optime == last
    assert [plain(entry)["ns"] for entry in entries(store)] == ["db.$cmd"]
    assert not list(store.engine.keys(Family.UNDO, b"", b"\xff"))[1:]


def test_without_an_oplog_nothing_is_logged() -> None:
    store = store_on(oplog=False)
    coll = make(store, "db.c", doc(1))
    update(store, coll, doc(1, x=1))
    assert not list(store.engine.keys(Family.OPLOG, b"", b"\xff"))
    assert not list(store.engine.keys(Family.UNDO, b"", b"\xff"))
    check(store)


def test_an_empty_unit_commits_to_nothing() -> None:
    store = store_on()
    with store.unit() as unit:
        assert unit.commit() is None


def test_a_second_unit_in_between_is_a_broken_invariant() -> None:
    store = store_on()
    coll = make(store, "db.c")
    unit = store.unit()
    unit.insert(coll, doc(1))
    insert(store, coll, doc(2))
    with pytest.raises(AssertionError, match="another unit"):
        unit.commit()


def test_listeners_hear_of_every_change_after_it_stands() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    heard: list[Commit] = []
    unsubscribe = store.subscribe(heard.append)
    with store.unit(from_migrate=True) as unit:
        unit.insert(coll, doc(2))
        unit.noop(bson.encode({"msg": "x"}))
        optime = unit.commit()
    update(store, coll, doc(1, x=1))
    remove(store, coll, 1)
    with store.unit() as unit:
        unit.insert(coll, doc(9))
    unsubscribe()
    insert(store, coll, doc(3))
    assert heard[0].optime == optime
    assert [(change.ns, change.op, change.from_migrate) for commit in heard for change in commit.changes] == [
        ("db.c", "i", True),
        ("", "n", True),
        ("db.c", "u", False),
        ("db.c", "d", False),
    ]
    assert heard[1].changes[0][2:4] == (doc(1), doc(1, x=1))
    assert heard[2].changes[0][2:4] == (doc(1, x=1), None)


def test_two_collections_change_in_one_unit() -> None:
    store = store_on()
    first, second = make(store, "db.a"), make(store, "db.b")
    with store.unit() as unit:
        unit.insert(first, doc(1))
        unit.insert(second, doc(1, x="y" * 50))
        unit.commit()
    assert (first.count, second.count) == (1, 1)
    assert second.size == len(doc(1, x="y" * 50))
    check(store)


def test_sixteen_megabytes_pass_through() -> None:
    store = store_on()
    big = doc(1, x="x" * (16 * 1024 * 1024))
    coll = make(store, "db.c", big)
    before = store.last_optime
    update(store, coll, doc(1, x="y" * (16 * 1024 * 1024), z=1))
    roll_back(store, before)
    assert list(coll.documents(store.engine)) == [big]


def test_stored_bytes_come_back_as_they_were() -> None:
    store = store_on()
    strange = bson.encode({"_id": 1, "z": -0.0, "n": float("nan"), "d": bson.DBRef("c", 1), "x": bson.Int64(1)})
    double_name = strange[:-1] + b"\x10z\0\1\0\0\0\0"
    raw = len(double_name).to_bytes(4, "little") + double_name[4:]
    coll = make(store, "db.c", raw)
    found = coll.by_id(store.engine, from_python(1.0))
    assert found is not None
    assert found[1] == raw


def test_unknown_codes_do_not_come_from_here() -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=(spec(("a", 1), ("b", 1)),))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, doc(1, a=[1], b=[2]))
    assert refused.value.code == Code.CannotIndexParallelArrays
