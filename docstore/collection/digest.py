"""The digest of a collection: equal for equal data, on any member, engine and process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from docstore.collection.store import mode_of
from docstore.key_layout import RECORD_ID_BYTES
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.store import Store
    from docstore.storage import Reader

_EVERY = 128


class Digest:
    """MD5 over the documents in `_id` index order, or over a column family's keys after the ident, and records.

    Statistics are excluded: each member has its own. Complete when `steps` has ended.
    """

    def __init__(self, store: Store, collection: Collection, reader: Reader) -> None:
        self._store = store
        self._collection = collection
        self._reader = reader
        self._sum = hashlib.md5(usedforsecurity=False)
        self.count = 0

    @property
    def text(self) -> str:
        return self._sum.hexdigest()

    def steps(self) -> Iterator[None]:
        """Compute the digest, yielding regularly."""
        family = self._collection.options.family is not None
        for parts in self._records() if family else self._documents():
            for part in parts:
                self._sum.update(part)
            self.count += 1
            if self.count % _EVERY == 0:
                yield
        yield

    def _documents(self) -> Iterator[tuple[bytes, ...]]:
        collection, reader = self._collection, self._reader
        for entry in reader.values(Family.INDEXES, collection.id_index.prefix, collection.id_index.end):
            raw = reader.get(Family.RECORDS, collection.prefix + entry[-RECORD_ID_BYTES:])
            assert raw is not None, f"{collection.ns}: the _id index leads to no record"
            yield (raw,)

    def _records(self) -> Iterator[tuple[bytes, ...]]:
        yield from mode_of(self._store, self._collection).stored(self._reader, self._collection)
