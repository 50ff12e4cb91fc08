from __future__ import annotations

from collections.abc import Iterator

import bson
import pytest

from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.sharding.key import KeyRange, ShardKey
from docstore.storage import Family, Reader
from mongod.migration.ranges import documents, key_index
from tests.unit.collection.building import doc, make, plain, spec, store_on

COUNT = 200


class Noting:
    """A reader that counts the documents which are read one by one; `gone` is not found."""

    def __init__(self, reader: Reader, gone: bytes | None = None) -> None:
        self._reader = reader
        self._gone = gone
        self.singly = 0

    def get(self, family: Family, key: bytes) -> bytes | None:
        self.singly += family is Family.RECORDS
        return None if key == self._gone else self._reader.get(family, key)

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return (item for item in self._reader.items(family, start, end, reverse) if item[0] != self._gone)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return self._reader.keys(family, start, end, reverse)

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return self._reader.values(family, start, end, reverse)


def filled() -> tuple[Store, Collection]:
    store = store_on()
    return store, make(store, "db.c", *(doc(n, x=n) for n in range(COUNT)), indexes=(spec(("x", 1)),))


def bounds(key: ShardKey, low: int, high: int) -> KeyRange:
    return key.range(bson.encode({key.fields[0]: low}), bson.encode({key.fields[0]: high}))


@pytest.mark.parametrize("field", ["x", "_id"])
def test_documents_of_a_range_that_stand_together_are_not_read_one_by_one(field: str) -> None:
    store, coll = filled()
    key, reader = ShardKey((field,)), Noting(store.engine)
    found = documents(reader, coll, key_index(coll, key), bounds(key, 10, COUNT - 10))
    assert [plain(raw)["_id"] for raw in found] == [*range(10, COUNT - 10)]
    assert reader.singly == 0


@pytest.mark.parametrize("place", [3, COUNT - 1])
def test_a_range_is_not_read_without_a_document_that_an_index_leads_to(place: int) -> None:
    store, coll = filled()
    key = ShardKey(("x",))
    (gone,) = [rid for rid, raw in coll.records(store.engine) if plain(raw)["_id"] == place]
    reader = Noting(store.engine, coll.prefix + gone.to_bytes(8, "big"))
    with pytest.raises(AssertionError, match="leads to no record"):
        list(documents(reader, coll, key_index(coll, key), bounds(key, 0, COUNT)))
