"""Row keys in the order of the ring."""

from __future__ import annotations

from collections.abc import Iterator

from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import family_end, family_prefix
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.token_ring import place_document, place_of_row_key
from docstore.storage import Family
from docstore.storage.engine import Reader
from docstore.widecolumn.model.keys import row_end, split_row
from docstore.widecolumn.model.slices import Steps
from docstore.widecolumn.node.keyspaces import FamilyStore


def find_row_keys(
    found: FamilyStore, reader: Reader, owned: Predicate | None, start: bytes, end: bytes, limit: int
) -> Steps[list[bytes]]:
    """At most `limit` rows from `start` to before `end` (to the end of the ring when that is empty) that are owned.

    A row is found by one seek, however large the one before it is.
    """
    partitioner = found.keyspace.partitioner
    base = family_prefix(found.collection.ident)
    stop = base + end if end else family_end(found.collection.ident)
    at = base + start
    row_keys: list[bytes] = []
    while len(row_keys) < limit and at < stop:
        key = next(_keys(reader, at, stop), None)
        if key is None:
            break
        mark = split_row(key, partitioner)[1]
        row_key = key[len(base) : mark]
        if is_owned(found, row_key, owned):
            row_keys.append(row_key)
        at = row_end(key[:mark])
        yield
    return row_keys


def _keys(reader: Reader, start: bytes, end: bytes) -> Iterator[bytes]:
    return iter(reader.keys(Family.WIDE, start, end))


def records(reader: Reader, start: bytes, end: bytes, partitioner: Partitioner) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(row key, path, record) of every record in a range of keys."""
    at = len(family_prefix(0))
    standing = b"\xff"
    mark = 0
    for key, record in reader.items(Family.WIDE, start, end):
        if not key.startswith(standing):
            mark = split_row(key, partitioner)[1]
            standing = key[:mark]
        yield standing[at:], key[mark:], record


def is_owned(found: FamilyStore, row_key: bytes, owned: Predicate | None) -> bool:
    """True if the row is in the owned ranges."""
    return owned is None or owned.matches(place_document(place_of_row_key(found.keyspace.partitioner, row_key)))
