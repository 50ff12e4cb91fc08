"""Sizes of collections: documents as counted by writes, disk space as estimated by the engine."""

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
"""Per index: the number of documents at its last estimate, and the mean size of its first entries."""


@dataclass(frozen=True, slots=True)
class CollectionSizes:
    """Bytes on disk of the documents, and of each index by name; compressed, estimated by the engine."""

    storage: int
    indexes: dict[str, int]

    @property
    def total(self) -> int:
        return self.storage + sum(self.indexes.values())


def collection_sizes(engine: Engine, collection: Collection) -> CollectionSizes:
    """Estimate the disk space of a collection and its indexes: their bytes, times the compression ratio.

    Collections share files and memtables, so exact sizes do not exist. Sizes are in whole pages, at least one each.
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
    """Return the mean size of an index's entries, estimated from the first ones, for `count` documents.

    It is estimated again when `count` has changed by an eighth.
    """
    estimate = _estimates.get(index)
    if estimate is None or abs(count - estimate[0]) * 8 > estimate[0]:
        estimate = _estimates[index] = count, _mean_of_first(engine, index)
    return estimate[1]


def _mean_of_first(engine: Engine, index: Index) -> float:
    sizes = [len(key) + len(value) for key, value in islice(engine.items(_INDEXES, index.prefix, index.end), _SAMPLE)]
    return sum(sizes) / len(sizes) if sizes else 0.0


def _pages(size: float) -> int:
    return max(1, -(-int(size) // _PAGE_BYTES)) * _PAGE_BYTES
