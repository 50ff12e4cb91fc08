"""What a store may hold besides documents, as far as this layer, replication and the node have to know it.

A mode keeps records in the `wide` family, under the idents of collections with the option `columnFamily`. Such a record
says of itself how it merges, so an entry of the oplog that merges (`op` "m") may come twice or late. A store without a
mode holds documents only. Whoever makes the store says which mode it has (`Store.mode`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from docstore.collection.catalog.catalog import Catalog
    from docstore.collection.collection import Collection
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from docstore.storage import Reader


class NamespaceGuard(Protocol):
    """Keeps documents out of the databases that do not hold any."""

    def check_documents(self, catalog: Catalog, database: str, what: str) -> None:
        """Errors: CommandNotSupported for a database of the mode. `what` is named in it: the command, or what it is to
        do.
        """


class EntryMerger(Protocol):
    """The records of a collection, and the entries of the oplog that change them."""

    def apply(self, unit: WriteUnitOfWork, coll: Collection, o: bytes) -> None:
        """Carry out an entry "m" with the document `o`."""

    def stored(self, reader: Reader, coll: Collection) -> Iterator[tuple[bytes, bytes]]:
        """(key behind the ident, record) of all that is counted in `count` and `size`, in order."""

    def is_record(self, record: bytes) -> bool:
        """Whether the bytes are a record, and not damage."""

    def rolled_back(self, o: bytes, key: bytes, record: bytes) -> bytes | None:
        """The document that is kept of a record which the rollback of an entry takes or changes; None of what is not
        kept. `o`: the document of the entry.
        """


class CollectionCloner(Protocol):
    """How an initial sync copies a collection, page by page."""

    def page_request(self, name: str, last: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The command that reads the page behind `last`, the reply with the one before; None when that was all."""

    def store_page(self, unit: WriteUnitOfWork, coll: Collection, page: Mapping[str, Any]) -> int:
        """Put what a page holds where nothing stands yet; how many rows."""


class StorageMode(NamespaceGuard, EntryMerger, CollectionCloner, Protocol):
    """The three seams that a mode fills."""
