"""The interface of a store, and of its catalog, to its write units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from docstore.collection.changes import Change
    from docstore.collection.collection import Collection
    from docstore.collection.oplog.document_key import DocumentKey
    from docstore.optime import OpTime
    from docstore.storage import Engine


class CatalogRows(Protocol):
    """The catalog rows of collections and their indexes."""

    def row(self, coll: Collection) -> tuple[bytes, bytes]:
        """Return (key, value) of a collection's row in the `meta` family."""


class UnitStore(Protocol):
    """A store as its write units use it. `sequence` counts commits, `security_changes` writes to users and roles."""

    document_keys: dict[str, DocumentKey]
    has_listeners: bool
    security_changes: int
    sequence: int

    @property
    def catalog(self) -> CatalogRows: ...

    @property
    def engine(self) -> Engine: ...

    def committed(self, optime: OpTime | None, changes: list[Change] | None) -> None:
        """Notify the store's watchers and listeners of a written unit."""
