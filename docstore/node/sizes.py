"""How much collections take: documents as counted with every write, space as the engine estimates it."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.collection.collection import Collection
from docstore.storage.engine import Engine, Family


@dataclass(frozen=True, slots=True)
class CollectionSizes:
    """Bytes on disk: of the documents, and of each index by name. Compressed, and estimated by the engine."""

    storage: int
    indexes: dict[str, int]

    @property
    def total(self) -> int:
        return self.storage + sum(self.indexes.values())


def collection_sizes(engine: Engine, collection: Collection) -> CollectionSizes:
    """What a collection and its indexes take."""
    return CollectionSizes(
        engine.size(Family.RECORDS, collection.prefix, collection.end),
        {name: engine.size(Family.INDEXES, index.prefix, index.end) for name, index in collection.indexes.items()},
    )
