"""Fetching: from index entries to their documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from docstore.collection.collection import Collection, Index
from docstore.collection.read.covered import sifted
from docstore.collection.read.index_access import entries_of
from docstore.kernel.keys.bounds import point_ranges
from docstore.kernel.scan.fetch import LARGEST_CHUNK, Examined, Fetching, Walk
from docstore.query.filter.tree import Filter
from docstore.query.plan.access import IndexScan
from docstore.storage import Family
from docstore.storage.engine import getter_of, keys_of_ranges, seeking

if TYPE_CHECKING:
    from docstore.storage import Reader

_AHEAD_OF_SIFTED = 32
"""Filtered entries read ahead at most: each may follow hundreds that the filter drops."""


class ReadAhead(NamedTuple):
    """Entries that may be read before they are requested, and documents likely to be requested (0: unknown)."""

    entries: int = LARGEST_CHUNK
    documents: int = 0


DEFAULT_READ_AHEAD = ReadAhead()


def fetched(
    coll: Collection,
    access: IndexScan,
    reader: Reader,
    examined: Examined,
    seen: set[bytes] | None = None,
    *,
    bare: bool = False,
    read_ahead: ReadAhead,
    condition: Filter | None = None,
) -> Fetching:
    """Return the documents of an index scan, each once. `bare`: without record ids.

    `condition`: a filter on index values; most entries that fail it are dropped unfetched. `seen`: record ids that
    other branches have returned.
    """
    # Over the engine itself, an update can move a document from one range to another.
    if seen is None and (access.index.multikey or access.checked or len(access.ranges) > 1):
        seen = set()
    # A caller without read-ahead wants exact counters.
    counted = read_ahead.entries == 1
    if condition is not None:
        entries: Iterator[bytes] = sifted(coll, access, reader, examined, condition, counted=counted)
        # Filtered entries are expensive to find: read few ahead.
        read_ahead = ReadAhead(min(read_ahead.entries, _AHEAD_OF_SIFTED), read_ahead.documents)
    else:
        entries = entries_of(coll, access, reader, examined, counted=counted)
    return fetching(coll, entries, reader, examined, seen, bare=bare, read_ahead=read_ahead)


def identities_of(reader: Reader, keys: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the record ids of those keys that exist in an `_id` index, in order of `keys`.

    Point lookups: each key has at most one document, and may be in the cache, where an iterator would have to seek.
    """
    return filter(None, map(getter_of(reader, Family.INDEXES), keys))


def fetched_by_keys(
    coll: Collection, index: Index, keys: list[bytes], reader: Reader, examined: Examined
) -> Iterator[bytes]:
    """Yield the documents with one of these values in the first field of an index; `keys` are sorted.

    The index must be ascending in that field and have one entry per document.
    """
    if index.is_id:
        entries = identities_of(reader, [index.prefix + key for key in keys])
    else:
        entries = keys_of_ranges(reader, Family.INDEXES, point_ranges(index.prefix, keys))
    # Over the engine itself, an update can move a document from one range to another.
    return cast("Iterator[bytes]", fetching(coll, entries, reader, examined, set(), bare=True))


def fetching(
    coll: Collection,
    entries: Iterator[bytes],
    reader: Reader,
    examined: Examined,
    seen: set[bytes] | None,
    *,
    bare: bool = False,
    read_ahead: ReadAhead = DEFAULT_READ_AHEAD,
) -> Fetching:
    """Return the documents of the entries; each once if `seen` is a set."""
    get, walks = getter_of(reader, Family.RECORDS), partial(_walk, reader, coll.end)
    return Fetching(entries, get, walks, coll.prefix, seen, bare, examined, read_ahead)


def _walk(reader: Reader, end: bytes) -> Walk:
    """Return a range scan over records: one iterator that is repositioned for each range, if the reader supports
    seeks.
    """
    moved = seeking(reader, Family.RECORDS, end, pairs=True)
    if moved is None:
        return partial(reader.items, Family.RECORDS)

    def walk(start: bytes, _: bytes) -> Iterator[tuple[bytes, bytes]]:
        moved.seek(start)
        return moved

    return walk
