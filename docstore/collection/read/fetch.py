"""From the entries of an index to the documents behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

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
"""So many entries that pass are read at once at most: each may stand behind hundreds that do not."""


def fetched(
    coll: Collection,
    access: IndexScan,
    reader: Reader,
    examined: Examined,
    seen: set[bytes] | None = None,
    *,
    bare: bool = False,
    ahead: int = LARGEST_CHUNK,
    wanted: int = 0,
    condition: Filter | None = None,
) -> Fetching:
    """The documents behind an index's entries, each once; without their record ids when `bare`; without most of those
    that do not satisfy a `condition` that the entries tell.

    `seen` are the documents that other branches have met. `wanted`: how many are likely to be asked for, if known.
    """
    # Over the engine itself an update can move a document from one range into another.
    if seen is None and (access.index.multikey or access.checked or len(access.ranges) > 1):
        seen = set()
    # Who looks at no entry before it is asked for wants exact figures.
    if condition is not None:
        entries: Iterator[bytes] = sifted(coll, access, reader, examined, condition, counted=ahead == 1)
        # What passes takes long to be found: nobody waits for what is not asked for.
        ahead = min(ahead, _AHEAD_OF_SIFTED)
    else:
        entries = entries_of(coll, access, reader, examined, counted=ahead == 1)
    return fetching(coll, entries, reader, examined, seen, bare=bare, ahead=ahead, wanted=wanted)


def identities_of(reader: Reader, keys: Iterable[bytes]) -> Iterator[bytes]:
    """What stands behind those of the keys that are in an `_id` index, in their order. Each leads to one document at
    most, and may be at hand where an iterator would have to look for it.
    """
    return filter(None, map(getter_of(reader, Family.INDEXES), keys))


def fetched_by_keys(
    coll: Collection, index: Index, keys: list[bytes], reader: Reader, examined: Examined
) -> Iterator[bytes]:
    """The documents that have one of these values, by their sorted keys, in the first field of an index that is
    ascending there and has one entry for a document.
    """
    if index.is_id:
        entries = identities_of(reader, [index.prefix + key for key in keys])
    else:
        entries = keys_of_ranges(reader, Family.INDEXES, point_ranges(index.prefix, keys))
    # Over the engine itself an update can move a document from one range into another.
    return cast("Iterator[bytes]", fetching(coll, entries, reader, examined, set(), bare=True))


def fetching(
    coll: Collection,
    entries: Iterator[bytes],
    reader: Reader,
    examined: Examined,
    seen: set[bytes] | None,
    *,
    bare: bool = False,
    ahead: int = LARGEST_CHUNK,
    wanted: int = 0,
) -> Fetching:
    """The documents behind entries; each once where there is a set for those that have been `seen`."""
    get, walks = getter_of(reader, Family.RECORDS), partial(_walk, reader, coll.end)
    return Fetching(entries, get, walks, coll.prefix, seen, bare, examined, ahead, wanted)


def _walk(reader: Reader, end: bytes) -> Walk:
    """What walks over records: by one iterator, which is moved to where a walk begins, where the reader has such."""
    moved = seeking(reader, Family.RECORDS, end, pairs=True)
    if moved is None:
        return partial(reader.items, Family.RECORDS)

    def walk(start: bytes, _: bytes) -> Iterator[tuple[bytes, bytes]]:
        moved.seek(start)
        return moved

    return walk
