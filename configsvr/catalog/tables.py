"""Whole documents of the `config` database, by `_id` and by index, over the data node's store.

Changes go into a write unit that the caller commits without awaiting in between. Reads of the same step are therefore
still true when the unit commits: compare-and-set.

A unit is one batch on this node, but its oplog entries reach other members separately, and a failover can keep a
prefix of them. A caller that writes several documents in a unit therefore orders them so that every prefix leaves a
sound catalog.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import bson
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from configsvr.catalog.records import (
    CHANGELOG,
    CHUNKS,
    COLLECTIONS,
    DATABASES,
    INDEXES,
    LOCKS,
    MONGOS,
    SETTINGS,
    SHARDS,
    VERSION,
)
from docstore.bson import document_to_python, from_python
from docstore.collection.index.spec import parse_index_spec
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.optime import unpack_timestamp
from docstore.storage import Family, Reader

_ALL = (VERSION, SHARDS, DATABASES, COLLECTIONS, CHUNKS, MONGOS, SETTINGS, LOCKS, CHANGELOG)


class Tables:
    """The config collections of one node. `wall_clock`: seconds since 1970."""

    def __init__(self, store: Store, wall_clock: Callable[[], float]) -> None:
        self.store = store
        self._wall_clock = wall_clock

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self._wall_clock() * 1000)

    def second_of_day(self) -> int:
        """The seconds after midnight in the time zone of this process."""
        local = time.localtime(self._wall_clock())
        return local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec

    def settings(self) -> dict[str, dict[str, Any]]:
        """The documents of config.settings by `_id`."""
        return {row["_id"]: row for row in map(document_to_python, self.all(SETTINGS))}

    def timestamp(self) -> Timestamp:
        """Return the cluster time that this node knows."""
        oplog = self.store.oplog
        assert oplog is not None, "a config server is a member of a replica set"
        return unpack_timestamp(max(oplog.cluster_time, int(self._wall_clock()) << 32 | 1))

    def initialise(self) -> None:
        """Create the collections, their indexes and the version document, as far as missing."""
        for namespace in _ALL:
            if self.store.collection(namespace) is None:
                with self.store.unit() as unit:
                    collection = self.store.create_collection(unit, namespace)
                    for key in INDEXES.get(namespace, ()):
                        name = index_name(key)
                        spec = parse_index_spec(bson.encode({"v": 2, "key": key, "name": name, "unique": True}))
                        self.store.create_index(unit, collection, spec)
                    unit.commit()
        if self.document(VERSION, 1) is None:
            version = {"_id": 1, "minCompatibleVersion": 5, "currentVersion": 6, "clusterId": ObjectId()}
            with self.store.unit() as unit:
                self.upsert(unit, VERSION, version)
                unit.commit()

    def document(self, namespace: str, identity: Any, reader: Reader | None = None) -> bytes | None:
        """The document with that `_id`."""
        collection = self.store.collection(namespace)
        if collection is None:
            return None
        record = collection.by_id(reader or self.store.engine, from_python(identity))
        return None if record is None else record[1]

    def all(self, namespace: str, reader: Reader | None = None) -> Iterator[bytes]:
        """All documents in the order of their `_id`s."""
        collection = self.store.collection(namespace)
        if collection is None:
            return
        reader = reader or self.store.engine
        for rid in reader.values(Family.INDEXES, collection.id_index.prefix, collection.id_index.end):
            raw = collection.record(reader, int.from_bytes(rid, "big"))
            assert raw is not None, f"{namespace}: an index entry leads to no record"
            yield raw

    def by_index(
        self,
        namespace: str,
        key: Mapping[str, int],
        prefix: tuple[Any, ...],
        *,
        start: tuple[Any, ...] = (),
        reverse: bool = False,
        reader: Reader | None = None,
    ) -> Iterator[bytes]:
        """The documents whose first key fields are `prefix`, in key order; from the key `prefix + start` on (or, going
        backwards, up to it and without it)."""
        collection = self.store.collection(namespace)
        if collection is None:
            return
        reader = reader or self.store.engine
        index = collection.indexes[index_name(key)]
        low = index.prefix + b"".join(encode_key(from_python(value)) for value in prefix)
        high = low + b"\xff"
        if start:
            edge = low + b"".join(encode_key(from_python(value)) for value in start)
            low, high = (low, edge) if reverse else (edge, high)
        for entry, value in reader.items(Family.INDEXES, low, high, reverse):
            raw = collection.record(reader, int.from_bytes(index.record_id(entry, value), "big"))
            assert raw is not None, f"{namespace}: an index entry leads to no record"
            yield raw

    def count(self, namespace: str, key: Mapping[str, int], prefix: tuple[Any, ...]) -> int:
        """Return how many documents have the first key fields `prefix`."""
        collection = self.store.collection(namespace)
        if collection is None:
            return 0
        low = collection.indexes[index_name(key)].prefix + b"".join(encode_key(from_python(value)) for value in prefix)
        return sum(1 for _ in self.store.engine.keys(Family.INDEXES, low, low + b"\xff"))

    def upsert(self, unit: WriteUnitOfWork, namespace: str, document: Mapping[str, Any]) -> None:
        """Store a document in the place of the one with its `_id`, or as a new one."""
        collection = self.store.collection(namespace)
        if collection is None:
            raise CommandError(Code.NotYetInitialized, f"{namespace} does not exist yet")
        raw = bson.encode(document)
        record = collection.by_id(unit, from_python(document["_id"]))
        if record is None:
            unit.insert(collection, raw)
        elif record[1] != raw:
            unit.replace(collection, record[0], record[1], raw)

    def delete(self, unit: WriteUnitOfWork, namespace: str, identity: Any) -> None:
        """Remove the document with that `_id` if it exists."""
        collection = self.store.collection(namespace)
        record = None if collection is None else collection.by_id(unit, from_python(identity))
        if collection is not None and record is not None:
            unit.remove(collection, record[0], record[1])


def index_name(key: Mapping[str, int]) -> str:
    """Return the default name of an index."""
    return "_".join(f"{path}_{direction}" for path, direction in key.items())
