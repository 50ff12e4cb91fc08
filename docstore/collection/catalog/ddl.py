"""Catalog changes inside a write unit, each with an oplog entry of the reference's form.

A change takes effect in memory at once, and is reverted if the unit aborts. Nothing is removed from disk here: dropped
trees become garbage, and `Store.reclaim` frees their space once no rollback can need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from bson.int64 import Int64

from docstore.bson import document_from, elements, from_python
from docstore.collection.catalog.modification import options_before
from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection, Index
from docstore.collection.index.build import create_index_entry
from docstore.collection.index.conflicts import is_among
from docstore.collection.index.spec import ID_INDEX, MAX_INDEXES, IndexSpec, id_index
from docstore.collection.oplog.entry import uuid_value
from docstore.errors import Code, CommandError
from docstore.namespace import check_collection_name, check_database_name, replicates, split_namespace
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.collection.catalog.catalog import Catalog
    from docstore.collection.unit_of_work import WriteUnitOfWork

_OBJECT = 3


def create_collection(
    catalog: Catalog, unit: WriteUnitOfWork, ns: str, options: CollectionOptions, uuid: UUID | None
) -> Collection:
    """Create an empty collection with its `_id` index. Errors: NamespaceExists, InvalidNamespace."""
    database, name = split_namespace(ns)
    check_database_name(database)
    check_collection_name(database, name)
    if ns in catalog.collections:
        raise CommandError(Code.NamespaceExists, f"Collection {ns} already exists.")
    ident, id_ident = catalog.take_ident(unit.batch), catalog.take_ident(unit.batch)
    spec = id_index(options.collation, options.clustered)
    coll = Collection(ns, uuid or uuid4(), options, ident, Index(spec, id_ident))
    catalog.add(unit, coll)
    o = [("create", *from_python(name)), *elements(options.raw)]
    if not spec.clustered:
        o.append(("idIndex", _OBJECT, spec.raw))
    unit.command(coll, f"{database}.$cmd", document_from(o))
    return coll


def drop_collection(catalog: Catalog, unit: WriteUnitOfWork, ns: str) -> None:
    """Drop the collection and its indexes. Errors: NamespaceNotFound."""
    coll = existing(catalog, ns)
    catalog.remove(unit, coll)
    o = document_from([("drop", *from_python(coll.name))])
    o2 = document_from([("numRecords", *from_python(coll.count))])
    unit.command(coll, f"{coll.database}.$cmd", o, o2)


def drop_database(catalog: Catalog, unit: WriteUnitOfWork, database: str) -> None:
    """Drop every collection of the database, then log the drop of the database itself."""
    for coll in sorted(catalog.in_database(database), key=lambda coll: coll.ns):
        drop_collection(catalog, unit, coll.ns)
    if database != "local":
        unit.command(None, f"{database}.$cmd", document_from([("dropDatabase", *from_python(1))]))


def truncate_family(catalog: Catalog, unit: WriteUnitOfWork, coll: Collection) -> None:
    """Truncate a column family: it gets a new tree, and the old one becomes garbage with its counters."""
    before = (coll.ident, coll.count, coll.size)

    def restore() -> None:
        coll.plant(before[0])
        coll.count, coll.size = before[1:]

    unit.touch(catalog.row(coll)[0], None, logged=coll.replicates)
    catalog.discard(unit, coll, coll.ident)
    coll.plant(catalog.take_ident(unit.batch))
    coll.count = coll.size = 0
    unit.on_abort(restore)
    unit.touch(*catalog.row(coll), logged=coll.replicates)
    unit.command(coll, f"{coll.database}.$cmd", document_from([("truncate", *from_python(coll.name))]))


def rename_collection(catalog: Catalog, unit: WriteUnitOfWork, source: str, target: str, *, drop_target: bool) -> None:
    """Rename the collection. With `drop_target`, drop an existing target in the same unit.

    Errors: NamespaceNotFound, NamespaceExists, InvalidNamespace; IllegalOperation between replicated and local
    databases.
    """
    coll = existing(catalog, source)
    check_database_name(split_namespace(target)[0])
    check_collection_name(*split_namespace(target))
    if source == target:
        raise CommandError(Code.IllegalOperation, "Can't rename a collection to itself")
    if coll.replicates != replicates(target):
        raise CommandError(Code.IllegalOperation, "Cannot rename between a replicated and a local database")
    replaced = catalog.collections.get(target)
    if replaced is not None and not drop_target:
        raise CommandError(Code.NamespaceExists, "target namespace exists")
    o = [
        ("renameCollection", *from_python(source)),
        ("to", *from_python(target)),
        ("stayTemp", *from_python(False)),
    ]
    if replaced is not None:
        o.append(("dropTarget", *uuid_value(replaced.uuid)))
        catalog.remove(unit, replaced)
    catalog.rename(unit, coll, target)
    unit.command(coll, f"{split_namespace(source)[0]}.$cmd", document_from(o))


def create_index(catalog: Catalog, unit: WriteUnitOfWork, coll: Collection, spec: IndexSpec) -> Index:
    """Create an index on an empty collection; return an existing identical one.

    The caller may have awaited since it looked up the collection, and secondaries must be able to apply every entry.
    Errors: IndexBuildAborted if the collection was dropped, or has documents by now; those of `is_among` if another
    index has the name.
    """
    if catalog.collections.get(coll.ns) is not coll:
        raise CommandError(Code.IndexBuildAborted, f"{coll.ns} was dropped while an index on it was to be made")
    existing_index = coll.indexes.get(spec.name)
    if existing_index is not None and is_among(spec, (existing_index.spec,)):
        return existing_index
    check_room(coll, 1)
    for _ in unit.keys(Family.RECORDS, coll.prefix, coll.end):
        raise CommandError(Code.IndexBuildAborted, f"{coll.ns} took documents while an index on it was to be made")
    index = Index(spec, catalog.take_ident(unit.batch))
    catalog.set_indexes(unit, coll, coll.indexes | {index.name: index}, coll.building)
    unit.command(coll, *create_index_entry(coll, spec))
    return index


def drop_index(catalog: Catalog, unit: WriteUnitOfWork, coll: Collection, name: str) -> None:
    """Drop an index. Errors: IndexNotFound; InvalidOptions for the `_id` index."""
    index = coll.indexes.get(name)
    if index is None:
        raise CommandError(Code.IndexNotFound, f"index not found with name [{name}]")
    if index.is_id:
        raise CommandError(Code.InvalidOptions, "cannot drop _id index")
    remaining = {
        other_name: other_index for other_name, other_index in coll.indexes.items() if other_index is not index
    }
    catalog.set_indexes(unit, coll, remaining, coll.building)
    catalog.discard(unit, coll, index.ident)
    o = document_from([("dropIndexes", *from_python(coll.name)), ("index", *from_python(name))])
    unit.command(coll, f"{coll.database}.$cmd", o, index.spec.raw)


def modify_index(
    catalog: Catalog,
    unit: WriteUnitOfWork,
    coll: Collection,
    name: str,
    *,
    hidden: bool | None = None,
    expire_after: int | None = None,
) -> IndexSpec:
    """Hide or unhide an index, or set its expiry in seconds; return its previous specification.

    Errors: IndexNotFound; for the `_id` index BadValue (hidden) or InvalidOptions; InvalidOptions for a compound TTL
    index.
    """
    index = coll.indexes.get(name)
    if index is None:
        raise CommandError(Code.IndexNotFound, f"cannot find index {name} for ns {coll.ns}")
    if index.is_id and hidden is not None:
        raise CommandError(Code.BadValue, "can't hide _id index")
    if expire_after is not None:
        check_can_expire(index.spec)
    before = index.spec
    old: list[tuple[str, int, bytes]] = []
    change: list[tuple[str, int, bytes]] = [("name", *from_python(name))]
    if expire_after is not None:
        index.spec = index.spec.with_expire_after(expire_after)
        change.append(("expireAfterSeconds", *from_python(Int64(expire_after))))
        if before.expire_after is not None:
            old.append(("expireAfterSeconds", *from_python(Int64(before.expire_after))))
    if hidden is not None:
        index.spec = index.spec.with_hidden(hidden)
        change.append(("hidden", *from_python(hidden)))
        old.append(("hidden", *from_python(before.hidden)))

    def restore() -> None:
        index.spec = before

    unit.on_abort(restore)
    catalog.set_indexes(unit, coll, coll.indexes, coll.building)
    o = document_from([("collMod", *from_python(coll.name)), ("index", _OBJECT, document_from(change))])
    o2 = document_from([*options_before(coll), ("indexOptions_old", _OBJECT, document_from(old))])
    unit.command(coll, f"{coll.database}.$cmd", o, o2)
    return before


def check_can_expire(spec: IndexSpec) -> None:
    """Errors: InvalidOptions for an index that cannot expire documents."""
    if spec.name == ID_INDEX.name:
        raise CommandError(Code.InvalidOptions, "the _id field does not support TTL indexes")
    if len(spec.fields) > 1 or spec.wildcard is not None:
        raise CommandError(Code.InvalidOptions, "TTL indexes are single-field indexes")


def existing(catalog: Catalog, ns: str) -> Collection:
    """Return the collection of that name. Errors: NamespaceNotFound."""
    coll = catalog.collections.get(ns)
    if coll is None:
        raise CommandError(Code.NamespaceNotFound, f"ns not found {ns}")
    return coll


def check_room(coll: Collection, count: int) -> None:
    """Errors: CannotCreateIndex if the collection would have more than 64 indexes."""
    if len(coll.indexes) + len(coll.building) + count > MAX_INDEXES:
        raise too_many(coll.ns)


def too_many(ns: str) -> CommandError:
    """Return the error for more indexes than a collection can have."""
    return CommandError(
        Code.CannotCreateIndex,
        f"add index fails, too many indexes for {ns}: a collection has at most {MAX_INDEXES}",
    )
