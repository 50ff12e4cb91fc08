"""The check of a collection finds whatever is wrong with it."""

from __future__ import annotations

import pytest

from docstore.bson import from_python
from docstore.kernel.keys.encoding import encode_key
from docstore.key_layout import record_key
from docstore.storage import Batch, Family
from tests.unit.collection.building import doc, make, spec, store_on

RECORDS, INDEXES = Family.RECORDS, Family.INDEXES


@pytest.mark.parametrize(("damage", "found"), [
    ("lost record", "an entry that no document asks for"),
    ("lost entry", "lacks an entry"),
    ("lost id", "index _id_ lacks an entry"),
    ("stray entry", "an entry that no document asks for"),
    ("count", "counts 5"),
    ("size", "bytes, but counts"),
    ("not bson", "is not BSON"),
    ("no id", "has no _id"),
    ("multikey", "does not know of it"),
    ("another type", "lacks an entry"),
    ("two owners", "two documents under one unique key"),
])  # fmt: skip
def test_damage_is_reported(damage: str, found: str) -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=1), doc(2, x=2), indexes=(spec(("x", 1), unique=True),))
    index = coll.indexes["x_1"]
    rid = (1).to_bytes(8, "big")
    entry = index.prefix + index.keys(doc(1, x=1))[0][0] + rid
    batch = Batch()
    if damage == "lost record":
        batch.delete(RECORDS, record_key(coll.ident, 1))
    elif damage == "lost entry":
        batch.delete(INDEXES, entry)
    elif damage == "lost id":
        batch.delete(INDEXES, coll.id_prefix + encode_key(from_python(1)))
    elif damage == "stray entry":
        batch.put(INDEXES, entry[:-1] + b"\x63", b"")
    elif damage == "count":
        coll.count = 5
    elif damage == "size":
        coll.size += 1
    elif damage == "not bson":
        batch.put(RECORDS, record_key(coll.ident, 1), b"rubbish")
    elif damage == "no id":
        batch.put(RECORDS, record_key(coll.ident, 1), b"\5\0\0\0\0")
    elif damage == "multikey":
        batch.put(RECORDS, record_key(coll.ident, 1), doc(1, x=[1, 2]))
    elif damage == "another type":
        batch.put(INDEXES, entry, b"\1")
    else:
        batch.put(RECORDS, record_key(coll.ident, 2), doc(2, x=1))
        batch.put(INDEXES, entry[:-1] + b"\2", b"")
    store.engine.write(batch)
    report = store.validate(coll)
    assert not report.valid
    assert any(found in error for error in report.errors), report.errors


def test_a_sound_collection_is_counted() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=[1, 2]), doc(2), indexes=(spec(("x", 1)), spec(("y", 1), sparse=True)))
    report = store.validate(coll)
    assert report.valid
    assert (report.count, report.size) == (2, coll.size)
    assert report.keys == {"_id_": 2, "x_1": 3, "y_1": 0}
