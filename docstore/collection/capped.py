"""Capped collections: removal of the oldest records after an insert.

- The oldest records are removed until the collection is within its size and its number of documents. Each removal is an
  operation of its own, in the unit of the insert.
- The newest document stays, even if it exceeds the limit. Updates may grow documents; the next insert makes up for it.
- Members that apply an insert remove nothing by themselves: the removals are oplog entries too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from docstore.key_layout import last_long, record_id_bytes
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.collection.catalog.options import CollectionOptions
    from docstore.collection.collection import Collection
    from docstore.storage import Engine


def exceeded(options: CollectionOptions, count: int, size: int) -> bool:
    """True if a capped collection exceeds its limits."""
    return size > options.max_bytes or 0 < options.max_documents < count


class OldestRecords:
    """The records of a capped collection, oldest first, as one unit sees them, each returned once.

    `pending`: the unit's record changes, read at the time a record is returned.
    """

    def __init__(self, engine: Engine, pending: Mapping[bytes, bytes | None], coll: Collection) -> None:
        self._pending = pending
        self._coll = coll
        self._first_new = coll.next_record_id
        self._records = self._walk(engine)
        self._held: tuple[int, bytes] | None = None

    def take_before(self, limit: int) -> tuple[int, bytes] | None:
        """Return (record id, document) of the oldest remaining record, if its id is below `limit`."""
        record = self._held or next(self._records, None)
        if record is not None and record[0] >= limit:
            self._held = record
            return None
        self._held = None
        return record

    def _walk(self, engine: Engine) -> Iterator[tuple[int, bytes]]:
        coll, pending = self._coll, self._pending
        start = coll.prefix + record_id_bytes(coll.oldest)
        for key, stored in engine.items(Family.RECORDS, start, coll.end):
            raw = pending.get(key, stored)
            if raw is not None:
                yield last_long(key), raw
        record_id = self._first_new
        while record_id < coll.next_record_id:
            raw = pending.get(coll.prefix + record_id_bytes(record_id))
            if raw is not None:
                yield record_id, raw
            record_id += 1
