"""A leader with documents, and followers that apply its entries."""

from __future__ import annotations

from typing import Any

import bson

from docstore.bson import from_python, get_field
from docstore.collection.catalog.ddl import modify_index
from docstore.collection.oplog.apply import EntryUnit, apply_entry
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.oplog.undo import counts_as_of, undo_counters, undo_keys
from docstore.collection.store import Store
from docstore.storage import Family
from tests.unit.collection.building import (
    doc,
    entries,
    make,
    remove,
    spec,
    store_on,
    update,
)

_COMMAND = from_python("c")


def follow(leader: Store, follower: Store) -> None:
    for entry in entries(leader, follower.last_optime.timestamp):
        apply_entry(follower, entry)


def held(store: Store) -> dict[str, Any]:
    """Everything that members must agree on."""
    return {
        ns: (
            coll.uuid,
            coll.options,
            coll.count,
            coll.size,
            {name: (index.spec, index.multikey) for name, index in coll.indexes.items()},
            sorted(coll.documents(store.engine)),
        )
        for ns, coll in store.catalog.collections.items()
    }


def busy_leader() -> Store:
    store = store_on()
    coll = make(store, "db.c", doc(1, x=[1, 2]), doc(2, x=3, k="y" * 100), indexes=(spec(("x", 1), unique=True),))
    update(store, coll, doc(2, x=4, k="y" * 100))
    with store.unit(session=SessionWrite(b"s" * 48, 3)) as unit:
        unit.insert(coll, doc(3), stmt_id=5)
        unit.commit()
    remove(store, coll, 1)
    other = make(store, "db.d", doc(1, z=1), doc(2, z=2))
    build = store.build_index(other, [spec(("z", -1))])
    build.step(float("inf"))
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
    with store.unit() as unit:
        modify_index(store.catalog, unit, other, "z_-1", hidden=True)
        store.drop_index(unit, coll, "x_1")
        store.rename_collection(unit, "db.d", "db.e")
        unit.noop(bson.encode({"msg": "hello"}))
        unit.commit()
    make(store, "gone.c", doc(1))
    with store.unit() as unit:
        store.drop_database(unit, "gone")
        unit.commit()
    return store


def follow_in_units(leader: Store, follower: Store, most: int) -> None:
    """Several entries a unit; commands have their own."""
    log = entries(leader, follower.last_optime.timestamp)
    while log:
        size = 1
        if get_field(log[0], "op") != _COMMAND:
            while size < min(most, len(log)) and get_field(log[size], "op") != _COMMAND:
                size += 1
        with EntryUnit(follower) as unit:
            done = 0
            while done < size and get_field(log[0], "op") != _COMMAND:
                done += unit.apply_next(log, done, size)
            if not done:
                unit.apply(log[0])
            unit.commit()
        log = log[size:]


def rows(store: Store) -> dict[Family, list[tuple[bytes, bytes]]]:
    return {family: list(store.engine.items(family, b"", b"\xff" * 80)) for family in Family}


def state_of(store: Store) -> dict[Family, list[Any]]:
    """Everything that there is, but for the order of keys in what undoes an entry."""
    found: dict[Family, list[Any]] = dict(rows(store))
    found[Family.UNDO] = [
        (key, len(record), list(undo_counters(record)), counts_as_of(record), sorted(undo_keys(record), key=repr))
        for key, record in found[Family.UNDO]
    ]
    return found


def leader_of_groups() -> Store:
    """Inserts with one entry for several, among others; arrays, unique keys and identities out of order in them."""
    store = store_on()
    coll = make(store, "db.c", doc(0, x=0), indexes=(spec(("x", 1), unique=True), spec(("y", 1))))
    for first in (50, 10, 100):
        with store.unit(from_migrate=True) as unit:
            unit.insert_all(coll, [doc(first + n, x=first + n, y=[n, -n]) for n in range(7)])
            unit.commit()
        update(store, coll, doc(0, x=-first))
    remove(store, coll, 12)
    with store.unit() as unit:
        unit.insert_all(coll, [doc(12, x=12), doc("text", x="text")])
        unit.insert_all(coll, [doc(first, x=first) for first in (3, 2)])
        unit.commit()
    return store
