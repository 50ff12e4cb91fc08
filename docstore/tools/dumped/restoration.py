"""Restoring collections of a dump to a server: each is created, then filled; indexes are built when all are full.

Indexes come last, after the replay of the log: before its end a unique index could refuse documents of the final
state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import decode
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import CollectionInvalid, OperationFailure

from docstore.tools.connection import RAW, Client
from docstore.tools.dumped.families import TYPE as FAMILY
from docstore.tools.dumped.families import make_family, write_rows
from docstore.tools.dumped.files import SERIES, documents_name
from docstore.tools.dumped.indexes import IndexForm
from docstore.tools.dumped.origins import Origin
from docstore.tools.dumped.record import Record
from docstore.tools.insertion import Counts, Workers, batches_of, insert
from docstore.tools.terminal import Terminal, ToolFailed
from docstore.tools.text.extended_json import EXACT

_NAMESPACE_EXISTS = 48

Indexes = dict[str, dict[str, dict[str, Any]]]
"""The arguments of `createIndexes`, by namespace and index name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The options of a restore."""

    drop: bool
    with_indexes: bool
    with_options: bool
    in_order: bool
    unvalidated: bool
    checked: bool
    index_form: IndexForm
    workers: int
    rename: Callable[[str], str]
    renames: bool


@dataclass(frozen=True, slots=True)
class Restoration:
    """A restore under way. Any thread may restore a collection of it."""

    client: Client
    manner: Manner
    terminal: Terminal
    record: Record | None
    indexes: Indexes = field(default_factory=dict)
    fillings: list[Filling] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check_targets(self, origins: Iterable[Origin]) -> None:
        """Raise ToolFailed if two collections would become one."""
        names: dict[str, str] = {}
        for origin in origins:
            name = self.manner.rename(origin.namespace)
            if name in names:
                raise ToolFailed(f"{names[name]} and {origin.namespace} would both be restored as {name}")
            names[name] = origin.namespace

    def begin(self, origin: Origin) -> Filling:
        """Create the collection, or the view, of a dump. Errors: PyMongoError, ToolFailed."""
        namespace = self.manner.rename(origin.namespace)
        name, _, collection = namespace.partition(".")
        if not name or not collection:
            raise ToolFailed(f"{namespace!r} is no name of a collection")
        database = self.client.get_database(name)
        done = None if self.record is None else self.record.done(namespace)
        drop = self.manner.drop and done is None
        if origin.metadata.get("type") == FAMILY:
            return self._begin_family(origin, database, collection, done, drop=drop)
        if drop:
            database.drop_collection(collection)
        options = origin.metadata.get("options", {})
        is_view, is_series = (origin.metadata.get("type") == kind for kind in ("view", SERIES))
        if not (self.manner.with_options or is_view or is_series):
            options = {}
        is_new = _create(database, collection, options)
        _check_still_there(namespace, done, is_new=is_new)
        if not is_new and not is_view:
            self.terminal.say(f"restoring to existing collection {namespace} without dropping")
        form = self.manner.index_form
        indexes = {
            index["name"]: form.made_of(index)
            for index in origin.metadata.get("indexes", ())
            if index["name"] != "_id_"
        }
        if self.manner.with_indexes and indexes:
            with self._lock:
                self.indexes[namespace] = indexes
        documents = database.get_collection(documents_name(collection, origin.metadata), codec_options=RAW)
        return self._noted(Filling(self, documents, namespace, done), done)

    def _begin_family(
        self, origin: Origin, database: Database[RawBSONDocument], family: str, done: int | None, *, drop: bool
    ) -> Filling:
        """Create the column family of a dump."""
        is_new = make_family(database, family, origin.metadata.get("options", {}), drop=drop)
        _check_still_there(f"{database.name}.{family}", done, is_new=is_new)
        if not is_new:
            self.terminal.say(f"restoring to existing column family {database.name}.{family} without dropping")
        return self._noted(
            FamilyFilling(self, database.get_collection(family), f"{database.name}.{family}", done), done
        )

    def _noted(self, filling: Filling, done: int | None) -> Filling:
        self.fillings.append(filling)
        if self.record is not None:
            self.record.reach(filling.namespace, done or 0)
        return filling

    @property
    def counts(self) -> Counts:
        """Return the counts of all collections."""
        return sum((filling.counts for filling in self.fillings), Counts())

    def build_indexes(self) -> None:
        """Build the collected indexes. Errors: PyMongoError."""
        if not self.manner.with_indexes:
            return
        for namespace, indexes in sorted(self.indexes.items()):
            name, _, collection = namespace.partition(".")
            if indexes:
                self.terminal.say(f"restoring indexes for collection {namespace}")
                self.client.get_database(name).command("createIndexes", collection, indexes=list(indexes.values()))


class Filling:
    """A collection being filled with documents."""

    def __init__(
        self, restoration: Restoration, collection: Collection[RawBSONDocument], namespace: str, done: int | None
    ) -> None:
        """`namespace`: the target."""
        self._restoration = restoration
        self._collection = collection
        self.namespace = namespace
        self.skipped = done or 0
        """Documents from the beginning that an earlier restore has brought."""
        self._is_resumed = done is not None
        self._bytes = 0
        self._reached = self.skipped
        manner = restoration.manner
        self._workers = Workers(self._insert, manner.workers, in_order=manner.in_order)

    def __enter__(self) -> Filling:
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)

    @property
    def counts(self) -> Counts:
        return self._workers.counts

    def insert(self, documents: Iterable[RawBSONDocument], reached: Callable[[int], object]) -> None:
        """Insert documents. After each batch `reached` gets the number of bytes handed over so far. Errors: Refused,
        PyMongoError.
        """
        for batch in batches_of(self._checked(documents)):
            self._workers.submit(batch)
            self._bytes += sum(len(document.raw) for document in batch)
            reached(self._bytes)
            self._note()

    def _checked(self, documents: Iterable[RawBSONDocument]) -> Iterator[RawBSONDocument]:
        for document in documents:
            if self._restoration.manner.checked:
                try:
                    decode(document.raw, EXACT)
                except BSONError as error:
                    raise ToolFailed(f"a document of {self.namespace} is malformed: {error}") from error
            yield document

    def finish(self) -> Counts:
        """Wait for all documents. Errors: as for put."""
        counts = self._workers.finish()
        self._note()
        self._restoration.terminal.say(
            f"finished restoring {self.namespace} ({counts.done} documents, {counts.failed} failures)"
        )
        return counts

    def _note(self) -> None:
        """Record how many documents from the beginning have been acknowledged; refused ones count."""
        acknowledged = self.skipped + self._workers.counts.done + self._workers.counts.failed
        if self._restoration.record is not None and acknowledged != self._reached:
            self._reached = acknowledged
            self._restoration.record.reach(self.namespace, acknowledged)

    def _insert(self, batch: Sequence[RawBSONDocument]) -> Counts:
        manner = self._restoration.manner
        return insert(
            self._collection,
            batch,
            self._restoration.terminal,
            in_order=manner.in_order,
            unvalidated=manner.unvalidated,
            is_there=self._is_there if self._is_resumed else None,
        )

    def _is_there(self, document: RawBSONDocument) -> bool:
        """True if the collection has exactly this document: then it was inserted before the interruption."""
        stored_document = self._collection.find_one({"_id": document.get("_id")})
        return stored_document is not None and stored_document.raw == document.raw


class FamilyFilling(Filling):
    """A column family being filled with rows."""

    def _insert(self, batch: Sequence[RawBSONDocument]) -> Counts:
        return write_rows(self._collection.database, self._collection.name, batch)


def _create(database: Database[RawBSONDocument], collection: str, options: dict[str, Any]) -> bool:
    """Create a collection as dumped. False if it exists; it keeps its own options then."""
    try:
        database.command("create", collection, **options)
    except CollectionInvalid:
        return False
    except OperationFailure as error:
        if error.code != _NAMESPACE_EXISTS:
            raise
        return False
    return True


def _check_still_there(namespace: str, done: int | None, *, is_new: bool) -> None:
    """Refuse to go on behind documents that are gone. Errors: ToolFailed. `done`: as the record says."""
    if done and is_new:
        raise ToolFailed(
            f"{namespace} has to be begun anew: by the record it had {done} documents, and the server does not have it"
            " (another server, or it was dropped); restore without --resumeFile"
        )
