"""Repair of a store from its records."""

from __future__ import annotations

import bson

from docstore.bson import from_python
from docstore.collection.catalog.options import parse_options
from docstore.collection.repair import repair_collection
from docstore.collection.store import Store
from docstore.storage import Batch, Family, open_engine
from tests.unit.collection.building import doc, make, spec, ticking


def test_indexes_and_counters_are_what_the_documents_ask_for() -> None:
    store = Store(open_engine("inMemory", ""), clock=ticking())
    coll = make(store, "db.c", indexes=(spec(("a", 1)), spec(("tags", 1))))
    with store.unit() as unit:
        for n in range(10):
            unit.insert(coll, doc(n, a=n, tags=[n, n + 1]))
        unit.commit()
    batch = Batch()
    first, second, *_ = store.engine.keys(Family.RECORDS, coll.prefix, coll.end)
    batch.put(Family.RECORDS, first, b"\x07\0\0\0no")
    batch.put(Family.RECORDS, second, doc(5, a=9))
    for index in coll.indexes.values():
        batch.delete_range(Family.INDEXES, index.prefix, index.prefix + b"\xff")
    store.engine.write(batch)
    coll.count = 99
    assert not store.validate(coll).valid
    done = repair_collection(store, coll)
    assert (done.was_valid, done.count, len(done.removed)) == (False, 8, 2)
    assert store.validate(coll).valid
    again = Store(store.engine, clock=ticking())
    reopened = again.catalog.collections["db.c"]
    assert (reopened.count, reopened.indexes["tags_1"].multikey) == (8, True)
    assert again.validate(reopened).valid
    assert repair_collection(again, reopened).was_valid


def test_the_ids_of_a_collection_with_a_collation_are_found_after_a_repair() -> None:
    store = Store(open_engine("inMemory", ""), clock=ticking())
    options = parse_options(bson.encode({"collation": {"locale": "en", "strength": 2}}))
    with store.unit() as unit:
        coll = store.create_collection(unit, "db.c", options)
        for name in ("Bob", "ann"):
            unit.insert(coll, bson.encode({"_id": name}))
        unit.commit()
    assert store.validate(coll).valid
    done = repair_collection(store, coll)
    assert (done.was_valid, done.count, done.removed) == (True, 2, [])
    assert store.validate(coll).valid
    found = coll.by_id(store.engine, from_python("bob"))
    assert found is not None
    assert bson.decode(found[1]) == {"_id": "Bob"}
