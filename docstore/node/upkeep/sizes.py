"""How much collections take: documents as every write counts them, disk space as the engine estimates it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

from docstore.collection.collection import Collection, Index
from docstore.key_layout import IDENT_BYTES, RECORD_ID_BYTES
from docstore.storage.engine import Engine, Family

_PAGE_BYTES = 4096
_SAMPLE = 16
_RECORD_KEY_BYTES = IDENT_BYTES + RECORD_ID_BYTES
_INDEXES = Family.INDEXES
_estimates: WeakKeyDictionary[Index, tuple[int, float]] = WeakKeyDictionary()
"""The documents that there were when an index was looked into, and the mean size of its first entries."""


@dataclass(frozen=True, slots=True)
class CollectionSizes:
    """Bytes on disk: of the documents, and of each index by name. Compressed, and estimated by the engine."""

    storage: int
    indexes: dict[str, int]

    @property
    def total(self) -> int:
        return self.storage + sum(self.indexes.values())


def collection_sizes(engine: Engine, collection: Collection) -> CollectionSizes:
    """About what a collection and its indexes take: their bytes, times how far such bytes are compressed on disk.

    Files and memtables are shared by all collections, so nothing tells their space apart; it is given in whole pages,
    and nothing takes less than one.
    """
    records = collection.size + collection.count * _RECORD_KEY_BYTES
    family = Family.RECORDS if collection.options.family is None else Family.WIDE
    return CollectionSizes(
        _pages(records * engine.ratio(family)),
        {
            index.name: _pages(
                collection.count * _entry_bytes(engine, index, collection.count) * engine.ratio(Family.INDEXES)
                if collection.count
                else 0
            )
            for index in collection.counted_indexes
        },
    )


def _entry_bytes(engine: Engine, index: Index, count: int) -> float:
    """The mean size of an index's entries, estimated from the first ones, for a collection of `count` documents.

    It is estimated anew when there are an eighth more or fewer of these.
    """
    known = _estimates.get(index)
    if known is None or abs(count - known[0]) * 8 > known[0]:
        known = _estimates[index] = count, _mean_of_first(engine, index)
    return known[1]


def _mean_of_first(engine: Engine, index: Index) -> float:
    sizes = [len(key) + len(value) for key, value in islice(engine.items(_INDEXES, index.prefix, index.end), _SAMPLE)]
    return sum(sizes) / len(sizes) if sizes else 0.0


def _pages(size: float) -> int:
    return max(1, -(-int(size) // _PAGE_BYTES)) * _PAGE_BYTES
