"""The catalog of collections and indexes: rows in the `meta` family, cached in memory while the process runs.

A row is a BSON document under the collection's ident: `{ns, uuid, options, idIndex: ident, indexes: [{spec, ident,
places}]}`. Invariants:

* Idents come from one counter, whose row is never undone: a rollback must not issue an ident twice. The counter is
  above every ident on disk.
* An unused tree has a garbage row with the timestamp from which its removal is final: 0 for an index being built
  (removed at the next start), 1 if nothing was logged.
* A collection keeps its Python object while its ident exists, also across `load`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from docstore.bson import (
    OBJECT,
    Value,
    array_documents,
    array_value,
    document_from,
    document_to_python,
    from_python,
    get_field,
)
from docstore.collection.catalog.options import CollectionOptions, parse_options
from docstore.collection.collection import Collection, Index, unpack_counters
from docstore.collection.index.spec import id_index, parse_index_spec
from docstore.collection.oplog.entry import uuid_value
from docstore.collection.transaction.claims import Claims
from docstore.key_layout import (
    BUILDING,
    CATALOG_PREFIX,
    COUNTERS_PREFIX,
    FAMILY_PREFIX,
    GARBAGE_PREFIX,
    NEXT_IDENT_KEY,
    UNLOGGED,
    after_prefix,
    family_end,
    family_prefix,
    ident_bytes,
    ident_end,
    ident_of,
    long_of,
    timestamp_key,
)
from docstore.namespace import REMEMBERED_NAMESPACES
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from docstore.storage import Engine, Reader


_META = Family.META
_IDENT_BOUND = b"\xff" * 16


class Catalog:
    """The catalog of one node. `collections`: by namespace. `garbage`: timestamps by ident.

    `version` increases with each change of a collection's name, options or indexes. Such changes are refused for
    collections that open transactions use, by their `claims`. `security_changes` increases when collections of users or
    roles are created or dropped.
    """

    def __init__(self, engine: Engine, claims: Claims | None = None) -> None:
        self._engine = engine
        self.claims = claims or Claims()
        self.version = 0
        self.security_changes = 0
        self.collections: dict[str, Collection] = {}
        self.garbage: dict[int, int] = {}
        self._by_uuid: dict[UUID, Collection] = {}
        self._by_database: dict[str, dict[str, Collection]] = {}
        self._next_ident = 1
        self.load()

    def load(self) -> None:
        """Read everything from disk, at startup or after rows have changed below."""
        engine = self._engine
        self.version += 1
        self.security_changes += 1
        stored = engine.get(_META, NEXT_IDENT_KEY)
        # After a power loss an index build's entries may be on disk although the counter row of its ident is not.
        self._next_ident = max(self._next_ident, ident_of(stored) if stored else 1, highest_ident(engine) + 1)
        by_ident = {coll.ident: coll for coll in self.collections.values()}
        self.collections = {}
        for key, row in engine.items(_META, CATALOG_PREFIX, after_prefix(CATALOG_PREFIX)):
            ident = ident_of(key, 1)
            coll = read_row(engine, ident, row, by_ident.get(ident))
            self.collections[coll.ns] = coll
        self._by_uuid = {coll.uuid: coll for coll in self.collections.values()}
        self._by_database = {}
        for coll in self.collections.values():
            self._by_database.setdefault(coll.database, {})[coll.ns] = coll
        self.garbage = {
            ident_of(key, 1): long_of(value)
            for key, value in engine.items(_META, GARBAGE_PREFIX, after_prefix(GARBAGE_PREFIX))
        }

    def row(self, coll: Collection) -> tuple[bytes, bytes]:
        """Return (key, value) of the collection's row from memory, without indexes being built."""
        return catalog_row(coll)

    def in_database(self, database: str) -> list[Collection]:
        return list(self._by_database.get(database, {}).values())

    def databases(self) -> list[str]:
        """Return the databases that have a collection, sorted."""
        return sorted(self._by_database)

    def by_uuid(self, uuid: UUID) -> Collection | None:
        return self._by_uuid.get(uuid)

    def take_ident(self, batch: Batch) -> int:
        """Return a new ident. It stays taken if the batch is dropped or undone."""
        ident = self._next_ident
        self._next_ident += 1
        batch.put(_META, NEXT_IDENT_KEY, ident_bytes(self._next_ident))
        return ident

    def add(self, unit: WriteUnitOfWork, coll: Collection) -> None:
        """Add the collection under its namespace, in memory and in the unit. Errors: WriteConflict."""
        self.claims.refuse_change(coll.ns)
        self.enter(coll)
        unit.on_abort(lambda: self.forget(coll))
        unit.touch(*self.row(coll), logged=coll.replicates)

    def enter(self, coll: Collection) -> None:
        """Add the collection in memory only."""
        self._name(coll)
        self._by_uuid[coll.uuid] = coll

    def forget(self, coll: Collection) -> None:
        """Remove the collection from memory."""
        self._unname(coll)
        del self._by_uuid[coll.uuid]

    def _name(self, coll: Collection) -> None:
        self.version += 1
        self.security_changes += coll.ns in REMEMBERED_NAMESPACES
        self.collections[coll.ns] = coll
        self._by_database.setdefault(coll.database, {})[coll.ns] = coll

    def _unname(self, coll: Collection) -> None:
        self.version += 1
        self.security_changes += coll.ns in REMEMBERED_NAMESPACES
        del self.collections[coll.ns]
        of_database = self._by_database[coll.database]
        del of_database[coll.ns]
        if not of_database:
            del self._by_database[coll.database]

    def remove(self, unit: WriteUnitOfWork, coll: Collection) -> None:
        """Remove the collection and mark its trees as garbage. Errors: WriteConflict."""
        self.claims.refuse_change(coll.ns)
        self.forget(coll)
        unit.on_abort(lambda: self.enter(coll))
        unit.touch(CATALOG_PREFIX + coll.prefix, None, logged=coll.replicates)
        for ident in (coll.ident, *(index.ident for index in coll.indexes.values())):
            self.discard(unit, coll, ident)

    def rename(self, unit: WriteUnitOfWork, coll: Collection, ns: str) -> None:
        """Move the collection to another, unused, namespace. Errors: WriteConflict."""
        before = coll.ns
        self.claims.refuse_change(before)
        self.claims.refuse_change(ns)

        def move(target: str) -> None:
            self._unname(coll)
            coll.rename(target)
            self._name(coll)

        move(ns)
        unit.on_abort(lambda: move(before))
        unit.touch(*self.row(coll), logged=coll.replicates)

    def set_options(self, unit: WriteUnitOfWork, coll: Collection, options: CollectionOptions) -> None:
        """Replace the collection's options and rewrite its row. Errors: WriteConflict."""
        self.claims.refuse_change(coll.ns)
        self.version += 1
        before = coll.options

        def restore() -> None:
            coll.options = before

        coll.options = options
        unit.on_abort(restore)
        unit.touch(*self.row(coll), logged=coll.replicates)

    def set_indexes(
        self, unit: WriteUnitOfWork, coll: Collection, ready: dict[str, Index], building: dict[str, Index]
    ) -> None:
        """Replace the collection's indexes and rewrite its row. Errors: WriteConflict."""
        self.claims.refuse_change(coll.ns)
        self.version += 1
        before = (coll.indexes, coll.building)
        coll.set_indexes(ready, building)
        unit.on_abort(lambda: coll.set_indexes(*before))
        unit.touch(*self.row(coll), logged=coll.replicates)

    def discard(self, unit: WriteUnitOfWork, coll: Collection, ident: int) -> None:
        """Mark a tree of the collection as garbage as of the unit's next entry."""
        timestamp = unit.next_timestamp() if coll.replicates else UNLOGGED
        self.garbage[ident] = timestamp
        unit.on_abort(lambda: self.removed(ident))
        unit.touch(garbage_key(ident), timestamp_key(timestamp), logged=coll.replicates)

    def adopt(self, unit: WriteUnitOfWork, coll: Collection, ident: int) -> None:
        """Put a tree that was being built into use; an undo makes it garbage again."""
        self.garbage.pop(ident, None)
        unit.on_abort(lambda: self.garbage.__setitem__(ident, BUILDING))
        unit.touch(garbage_key(ident), None, logged=coll.replicates)

    def droppable(self, limit: int | None) -> Iterator[int]:
        """Yield idents whose removal is final: the timestamp is at most `limit` (None: any), and no build uses them."""
        for ident, timestamp in list(self.garbage.items()):
            if timestamp != BUILDING and (limit is None or timestamp <= max(limit, UNLOGGED)):
                yield ident

    def removed(self, ident: int) -> None:
        """Remove the garbage row of a tree: its space has been freed, or it is in use again."""
        self.garbage.pop(ident, None)


def catalog_row(coll: Collection) -> tuple[bytes, bytes]:
    """Return (key, value) of the collection's row from memory, without indexes being built."""
    indexes: list[Value] = [
        (
            OBJECT,
            document_from(
                [
                    ("spec", OBJECT, index.spec.raw),
                    ("ident", *from_python(index.ident)),
                    ("places", *from_python(_bytes_of(index.array_bits))),
                ]
            ),
        )
        for index in coll.indexes.values()
        if not index.is_id
    ]
    fields: list[tuple[str, int, bytes]] = [
        ("ns", *from_python(coll.ns)),
        ("uuid", *uuid_value(coll.uuid)),
        ("options", OBJECT, coll.options.raw),
        ("idIndex", *from_python(coll.id_index.ident)),
        ("indexes", *array_value(indexes)),
    ]
    return CATALOG_PREFIX + coll.prefix, document_from(fields)


def read_row(reader: Reader, ident: int, row: bytes, existing: Collection | None = None) -> Collection:
    """Return the collection of a catalog row; if `existing` is not None, that object, updated to the row."""
    fields = document_to_python(row)
    ns = str(fields["ns"])
    stored = get_field(row, "options")
    assert stored is not None, "a catalog row without options"
    options = parse_options(stored[1])
    coll = existing
    if coll is None:
        by_id = Index(id_index(options.collation, options.clustered), int(fields["idIndex"]))
        coll = Collection(ns, UUID(bytes=bytes(fields["uuid"])), options, ident, by_id)
        coll.next_record_id = coll.find_last_record_id(reader) + 1
    elif coll.ns != ns:
        coll.rename(ns)
    # A rollback may have restored a higher key.
    coll.newest_id = None
    coll.options = options
    coll.oldest = 0
    indexes = {coll.id_index.name: coll.id_index}
    listed = get_field(row, "indexes")
    assert listed is not None, "a catalog row without indexes"
    for item, raw in zip(fields["indexes"], array_documents(listed[1]), strict=True):
        spec = get_field(raw, "spec")
        assert spec is not None, "an index without specification"
        index = Index(
            parse_index_spec(spec[1]), int(item["ident"]), array_bits=int.from_bytes(item["places"], "little")
        )
        indexes[index.name] = index
    coll.set_indexes(indexes, {})
    counters = reader.get(_META, coll.counters_key)
    coll.count, coll.size = unpack_counters(counters) if counters else (0, 0)
    return coll


def highest_ident(reader: Reader) -> int:
    """Return the highest ident in use; 0 if there is none."""
    ends = [
        (Family.RECORDS, b"", _IDENT_BOUND),
        (Family.INDEXES, b"", _IDENT_BOUND),
        (Family.WIDE, FAMILY_PREFIX, after_prefix(FAMILY_PREFIX)),
        *((_META, prefix, after_prefix(prefix)) for prefix in (CATALOG_PREFIX, COUNTERS_PREFIX, GARBAGE_PREFIX)),
    ]
    highest = 0
    for family, start, end in ends:
        for key in reader.keys(family, start, end, reverse=True):
            highest = max(highest, ident_of(key, len(start)))
            break
    return highest


def _bytes_of(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def garbage_key(ident: int) -> bytes:
    return GARBAGE_PREFIX + ident_bytes(ident)


def remove_tree(batch: Batch, ident: int) -> None:
    """Free the space of an ident: a collection, an index or a column family."""
    remove_trees(batch, [ident])


def remove_trees(batch: Batch, idents: list[int]) -> None:
    """Free the space of ascending idents; consecutive ones are one range on disk."""
    first = None
    for index, ident in enumerate(idents):
        first = ident if first is None else first
        if index + 1 == len(idents) or idents[index + 1] != ident + 1:
            for family in (Family.RECORDS, Family.INDEXES):
                batch.delete_range(family, ident_bytes(first), ident_end(ident))
            batch.delete_range(Family.WIDE, family_prefix(first), family_end(ident))
            first = None
        batch.delete(_META, COUNTERS_PREFIX + ident_bytes(ident))
        batch.delete(_META, garbage_key(ident))
