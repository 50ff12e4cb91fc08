"""Short ways to make documents, specifications, stores and readings in tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import bson
from bson.codec_options import CodecOptions

from docstore.bson import from_python
from docstore.collection.collection import Collection
from docstore.collection.index.spec import IndexSpec, parse_index_spec
from docstore.collection.store import Store
from docstore.storage import Engine, Reader, open_engine

RAW: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=False)


def doc(_id: object, **fields: object) -> bytes:
    """A document."""
    return bson.encode({"_id": _id, **fields})


def plain(raw: bytes) -> dict[str, Any]:
    """A document decoded."""
    return bson.decode(raw, RAW)


def spec(*keys: tuple[str, int], name: str = "", **options: object) -> IndexSpec:
    """An index specification; the name is made from the keys."""
    made = name or "_".join(f"{path}_{direction}" for path, direction in keys)
    return parse_index_spec(bson.encode({"key": dict(keys), "name": made, **options}))


def ticking(start: int = 1_700_000_000) -> Callable[[], float]:
    """A clock that goes on by a quarter of a second at every look."""
    ticks = itertools.count(start * 4)
    return lambda: next(ticks) / 4


def store_on(engine: Engine | None = None, *, oplog: bool = True, clock: Callable[[], float] | None = None) -> Store:
    """A store, in memory unless an engine is given."""
    made = Store(engine or open_engine("inMemory", ""), clock=clock or ticking())
    if oplog:
        made.attach_oplog(1 << 30)
    return made


def make(store: Store, ns: str, *documents: bytes, indexes: tuple[IndexSpec, ...] = ()) -> Collection:
    """A collection with indexes and documents."""
    with store.unit() as unit:
        coll = store.create_collection(unit, ns)
        for index in indexes:
            store.create_index(unit, coll, index)
        for raw in documents:
            unit.insert(coll, raw)
        unit.commit()
    return coll


def insert(store: Store, coll: Collection, *documents: bytes) -> None:
    with store.unit() as unit:
        for raw in documents:
            unit.insert(coll, raw)
        unit.commit()


def update(store: Store, coll: Collection, after: bytes) -> None:
    """Put a document in the place of the one with its `_id`."""
    with store.unit() as unit:
        found = coll.by_id(unit, from_python(plain(after)["_id"]))
        assert found is not None
        unit.replace(coll, *found, after)
        unit.commit()


def remove(store: Store, coll: Collection, identity: object) -> None:
    with store.unit() as unit:
        found = coll.by_id(unit, from_python(identity))
        assert found is not None
        unit.remove(coll, *found)
        unit.commit()


def read(coll: Collection, reader: Reader) -> list[dict[str, Any]]:
    """All documents in natural order."""
    return [plain(raw) for raw in coll.documents(reader)]


def entries(store: Store, after: int = 0) -> list[bytes]:
    """The oplog."""
    assert store.oplog is not None
    return list(store.oplog.scan(store.engine, after))


def check(store: Store) -> None:
    """Every collection is sound, and the oplog's counters are right."""
    for ns in store.namespaces():
        coll = store.collection(ns)
        assert coll is not None
        report = store.validate(coll)
        assert report.valid, report.errors
    if store.oplog is not None:
        log = entries(store)
        assert (store.oplog.count, store.oplog.size) == (len(log), sum(map(len, log)))
