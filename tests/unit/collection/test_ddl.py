"""Changes of the catalog and their entries."""

from __future__ import annotations

from typing import Any

import pytest
from bson.binary import Binary

from docstore.collection.catalog.ddl import modify_index
from docstore.collection.catalog.options import options_of
from docstore.errors import Code, CommandError
from docstore.storage import open_engine
from tests.unit.collection.building import check, doc, entries, insert, make, plain, read, spec, store_on


def logged(store: Any) -> dict[str, Any]:
    return plain(entries(store)[-1])


def test_a_collection_is_created_with_its_options_and_found_again() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    with store.unit() as unit:
        coll = store.create_collection(unit, "db.c.d", options_of({"validator": {"a": 1}}))
        unit.commit()
    entry = logged(store)
    assert (entry["op"], entry["ns"], bytes(entry["ui"])) == ("c", "db.$cmd", coll.uuid.bytes)
    assert entry["o"] == {
        "create": "c.d", "validator": {"a": 1}, "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"},
    }  # fmt: skip
    again = store_on(engine).collection("db.c.d")
    assert again is not None
    assert (again.uuid, again.options, again.database, again.name) == (coll.uuid, coll.options, "db", "c.d")
    assert plain(again.options.raw) == {"validator": {"a": 1}}


@pytest.mark.parametrize("name", ["db.", "db", ".c", "d b.c", "db.$c", "db.c."])
def test_names_that_no_server_takes_are_refused(name: str) -> None:
    store = store_on()
    with pytest.raises(CommandError) as refused, store.unit() as unit:
        store.create_collection(unit, name)
    assert refused.value.code == Code.InvalidNamespace


def test_a_second_collection_of_a_name_is_refused() -> None:
    store = store_on()
    make(store, "db.c")
    with pytest.raises(CommandError) as refused:
        make(store, "db.c")
    assert refused.value.code == Code.NamespaceExists


def test_databases_and_namespaces_are_those_with_collections() -> None:
    store = store_on()
    for ns in ("b.x", "a.y", "a.z", "ab.c"):
        make(store, ns)
    assert store.databases() == ["a", "ab", "b"]
    assert sorted(store.namespaces("a")) == ["a.y", "a.z"]
    assert sorted(store.namespaces()) == ["a.y", "a.z", "ab.c", "b.x"]


def test_a_drop_counts_what_it_drops() -> None:
    store = store_on()
    make(store, "db.c", doc(1), doc(2))
    with store.unit() as unit:
        store.drop_collection(unit, "db.c")
        unit.commit()
    entry = logged(store)
    assert (entry["o"], entry["o2"]) == ({"drop": "c"}, {"numRecords": 2})
    with pytest.raises(CommandError) as refused, store.unit() as unit:
        store.drop_collection(unit, "db.c")
    assert refused.value.code == Code.NamespaceNotFound


def test_dropping_a_database_drops_its_collections_first() -> None:
    store = store_on()
    for ns in ("db.b", "db.a", "dbx.c"):
        make(store, ns)
    last = store.last_optime.timestamp
    with store.unit() as unit:
        store.drop_database(unit, "db")
        unit.commit()
    assert [plain(entry)["o"] for entry in entries(store, last)] == [{"drop": "a"}, {"drop": "b"}, {"dropDatabase": 1}]
    assert store.namespaces() == ["dbx.c"]


def test_a_rename_keeps_documents_indexes_and_uuid() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    with store.unit() as unit:
        store.rename_collection(unit, "db.c", "other.d", drop_target=False)
        unit.commit()
    assert logged(store)["o"] == {"renameCollection": "db.c", "to": "other.d", "stayTemp": False}
    insert(store, coll, doc(2))
    assert logged(store)["ns"] == "other.d"
    again = store_on(engine).catalog.collections
    assert list(again) == ["other.d"]
    assert (again["other.d"].uuid, list(again["other.d"].indexes)) == (coll.uuid, ["_id_", "x_1"])
    check(store)


def test_a_rename_over_a_collection_needs_leave_and_names_what_it_drops() -> None:
    store = store_on()
    make(store, "db.c", doc(1))
    target = make(store, "db.d", doc(2), doc(3))
    with pytest.raises(CommandError) as refused, store.unit() as unit:
        store.rename_collection(unit, "db.c", "db.d", drop_target=False)
    assert refused.value.code == Code.NamespaceExists
    with store.unit() as unit:
        store.rename_collection(unit, "db.c", "db.d", drop_target=True)
        unit.commit()
    assert bytes(logged(store)["o"]["dropTarget"]) == target.uuid.bytes
    assert read(store.catalog.collections["db.d"], store.engine) == [{"_id": 1}]
    check(store)


@pytest.mark.parametrize(("source", "target", "code"), [
    ("db.x", "db.d", Code.NamespaceNotFound),
    ("db.c", "db.c", Code.IllegalOperation),
    ("db.c", "local.c", Code.IllegalOperation),
    ("db.c", "db.$c", Code.InvalidNamespace),
])  # fmt: skip
def test_renames_that_cannot_be_are_refused_and_change_nothing(source: str, target: str, code: Code) -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1))
    with pytest.raises(CommandError) as refused, store.unit() as unit:
        store.rename_collection(unit, source, target, drop_target=True)
    assert refused.value.code == code
    assert store.namespaces() == ["db.c"]
    assert coll.ns == "db.c"


def test_an_index_is_dropped_with_its_specification_in_the_entry() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), indexes=(spec(("x", 1)),))
    with store.unit() as unit:
        store.drop_index(unit, coll, "x_1")
        unit.commit()
    entry = logged(store)
    assert entry["o"] == {"dropIndexes": "c", "index": "x_1"}
    assert entry["o2"] == {"v": 2, "key": {"x": 1}, "name": "x_1"}
    assert list(coll.indexes) == ["_id_"]
    insert(store, coll, doc(2, x=1))
    check(store)


@pytest.mark.parametrize(("name", "code"), [("_id_", Code.InvalidOptions), ("nope", Code.IndexNotFound)])
def test_some_indexes_cannot_be_dropped(name: str, code: Code) -> None:
    store = store_on()
    coll = make(store, "db.c")
    with pytest.raises(CommandError) as refused, store.unit() as unit:
        store.drop_index(unit, coll, name)
    assert refused.value.code == code


def test_indexes_survive_a_restart_with_their_multikey_flag() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    make(store, "db.c", doc(1, x=[1, 2]), indexes=(spec(("x", 1), unique=True), spec(("y", -1), sparse=True)))
    again = store_on(engine)
    indexes = again.catalog.collections["db.c"].indexes
    assert [(index.name, index.unique, index.sparse, index.multikey) for index in indexes.values()] == [
        ("_id_", True, False, False),
        ("x_1", True, False, True),
        ("y_-1", False, True, False),
    ]
    check(again)


def test_an_index_is_hidden_and_shown_again() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    coll = make(store, "db.c", indexes=(spec(("x", 1)),))
    with store.unit() as unit:
        modify_index(store.catalog, unit, coll, "x_1", hidden=True)
    assert not coll.indexes["x_1"].hidden
    with store.unit() as unit:
        modify_index(store.catalog, unit, coll, "x_1", hidden=True)
        unit.commit()
    entry = logged(store)
    assert entry["o"] == {"collMod": "c", "index": {"name": "x_1", "hidden": True}}
    before = {"uuid": Binary.from_uuid(coll.uuid)}
    assert entry["o2"] == {"collectionOptions_old": before, "indexOptions_old": {"hidden": False}}
    assert store_on(engine).catalog.collections["db.c"].indexes["x_1"].hidden


def test_record_ids_go_on_after_a_restart() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    make(store, "db.c", doc("b"), doc("a"))
    again = store_on(engine)
    coll = again.catalog.collections["db.c"]
    insert(again, coll, doc("0"))
    assert [found["_id"] for found in read(coll, engine)] == ["b", "a", "0"]
    assert [rid for rid, _ in coll.records(engine)] == [1, 2, 3]
    assert [rid for rid, _ in coll.records(engine, after=2)] == [3]
