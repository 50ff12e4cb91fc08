"""Catalog recovery for a damaged store: afterwards every record on disk belongs to a collection.

- Records without a catalog row become the collection `lost.<ident>`, without options and indexes.
- Rows of a column family become documents with their `key` and `record`.
- Only unreadable catalog rows are removed. Recovery is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import bson
from bson.errors import BSONError

from docstore.bson.validation import validate as validate_document
from docstore.collection.catalog.catalog import catalog_row, highest_ident, read_row
from docstore.collection.catalog.options import NO_OPTIONS
from docstore.collection.collection import Collection, Index
from docstore.collection.index.spec import id_index
from docstore.errors import CommandError
from docstore.key_layout import (
    CATALOG_PREFIX,
    FAMILY_PREFIX,
    GARBAGE_PREFIX,
    NEXT_IDENT_KEY,
    after_prefix,
    family_end,
    family_prefix,
    ident_bytes,
    ident_of,
    record_key,
)
from docstore.storage import Batch, Engine, Family, Reader, Urgency

DATABASE = "lost"
_BATCH_ROWS = 1_000
_LAST_IDENT = (1 << 32) - 1


def recover_catalog(engine: Engine, note: Callable[[list[str]], None]) -> None:
    """Give every record tree a catalog row. `note` receives the defects, as sentences, before they are repaired."""
    losses: list[str] = []
    batch = Batch()
    batch.urgency = Urgency.CONSENSUS
    collections = _readable_rows(engine, batch, losses)
    catalog_idents = {coll.ident for coll in collections} | {
        ident_of(key, len(GARBAGE_PREFIX))
        for key in engine.keys(Family.META, GARBAGE_PREFIX, after_prefix(GARBAGE_PREFIX))
    }
    namespaces = {coll.ns for coll in collections}
    next_ident = highest_ident(engine) + 1
    stored = engine.get(Family.META, NEXT_IDENT_KEY)
    if stored is not None and len(stored) == len(ident_bytes(0)):
        next_ident = max(next_ident, ident_of(stored))
    records = set(idents_in(engine, Family.RECORDS)) - catalog_idents
    rows = set(idents_in(engine, Family.WIDE)) - catalog_idents
    for ident in sorted(rows - records):
        _copy_rows(engine, ident)
    for ident in sorted(records | rows):
        coll = _collection(ident, next_ident, namespaces)
        next_ident += 1
        namespaces.add(coll.ns)
        batch.put(Family.META, *catalog_row(coll))
        content = "rows of a column family" if ident in rows else "documents"
        losses.append(f"the catalog did not name the collection of {content} that is {coll.ns} now")
    batch.put(Family.META, NEXT_IDENT_KEY, ident_bytes(next_ident))
    note(losses)
    engine.write(batch)


def _readable_rows(engine: Engine, batch: Batch, losses: list[str]) -> list[Collection]:
    """Return the collections with readable rows. Unreadable rows are removed; of two with one name the older is
    renamed.
    """
    by_namespace: dict[str, Collection] = {}
    for key, row in engine.items(Family.META, CATALOG_PREFIX, after_prefix(CATALOG_PREFIX)):
        try:
            validate_document(row)
            coll = read_row(engine, ident_of(key, len(CATALOG_PREFIX)), row)
        except (CommandError, AssertionError, BSONError, LookupError, TypeError, ValueError) as error:
            losses.append(f"the catalog row {key.hex()} cannot be read ({error}): {row[:200].hex()}")
            batch.delete(Family.META, key)
            continue
        older = by_namespace.get(coll.ns)
        if older is not None:
            older.rename(_free_name(older.ident, set(by_namespace)))
            batch.put(Family.META, *catalog_row(older))
            by_namespace[older.ns] = older
            losses.append(f"there were two collections {coll.ns}: the older one is {older.ns} now")
        by_namespace[coll.ns] = coll
    return list(by_namespace.values())


def idents_in(reader: Reader, family: Family) -> Iterator[int]:
    """Yield the idents with any key in a family, in order."""
    prefix = FAMILY_PREFIX if family is Family.WIDE else b""
    start, end = prefix, after_prefix(prefix) if prefix else b"\xff" * 16
    while True:
        key = next(iter(reader.keys(family, start, end)), None)
        if key is None:
            return
        ident = ident_of(key, len(prefix))
        yield ident
        if ident == _LAST_IDENT:
            return
        start = prefix + ident_bytes(ident + 1)


def _collection(ident: int, id_ident: int, namespaces: set[str]) -> Collection:
    spec = id_index(NO_OPTIONS.collation, NO_OPTIONS.clustered)
    return Collection(_free_name(ident, namespaces), uuid4(), NO_OPTIONS, ident, Index(spec, id_ident))


def _free_name(ident: int, namespaces: set[str]) -> str:
    name = f"{DATABASE}.{ident}"
    while name in namespaces:
        name += "_"
    return name


def _copy_rows(engine: Engine, ident: int) -> None:
    """Copy each row of a column family to a document under the same ident."""
    batch = Batch()
    for number, (key, record) in enumerate(engine.items(Family.WIDE, family_prefix(ident), family_end(ident)), start=1):
        document = bson.encode({"_id": bson.Int64(number), "key": key[len(family_prefix(ident)) :], "record": record})
        batch.put(Family.RECORDS, record_key(ident, number), document)
        if number % _BATCH_ROWS == 0:
            engine.write(batch)
            batch = Batch()
    engine.write(batch)
