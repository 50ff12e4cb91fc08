"""Storage modes: the interface to records other than documents, for this layer, replication and the node.

- A mode keeps records in the `wide` family, under the idents of collections with the option `columnFamily`.
- Such records merge by their own rules, so a merging oplog entry (`op` "m") may be applied twice or late.
- A store without a mode (`Store.mode`) holds documents only.
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
    """Keeps documents out of databases that belong to the mode."""

    def check_documents(self, catalog: Catalog, database: str, action: str) -> None:
        """Errors: CommandNotSupported for a database of the mode. `action`: the command, or its action, for the
        message.
        """


class EntryMerger(Protocol):
    """Reads the records of a collection and applies the oplog entries that change them."""

    def apply(self, unit: WriteUnitOfWork, coll: Collection, o: bytes) -> None:
        """Apply an entry "m" with the document `o`."""

    def stored(self, reader: Reader, coll: Collection) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key after the ident, record) of everything counted in `count` and `size`, in order."""

    def is_record(self, record: bytes) -> bool:
        """True if the bytes are a valid record."""

    def rolled_back(self, o: bytes, key: bytes, record: bytes) -> bytes | None:
        """Return the document saved for a record that the rollback of an entry removes or changes; None: not saved.

        `o`: the document of the entry.
        """


class CollectionCloner(Protocol):
    """Copies a collection in an initial sync, page by page."""

    def page_request(self, name: str, last: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the command that reads the next page; `last`: the reply with the previous one. None at the end."""

    def store_page(self, unit: WriteUnitOfWork, coll: Collection, page: Mapping[str, Any]) -> int:
        """Store the rows of a page whose keys are absent; return their number."""


class StorageMode(NamespaceGuard, EntryMerger, CollectionCloner, Protocol):
    """The complete interface of a mode."""
