"""From the entries of an index to the documents behind them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection
from docstore.collection.read.index_access import entries_of
from docstore.kernel.scan.fetch import LARGEST_CHUNK, Examined, Fetching
from docstore.query.plan.access import IndexScan
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader


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
) -> Fetching:
    """The documents behind an index's entries, each once; without their record ids when `bare`.

    `seen` are the documents that other branches have met. `wanted`: how many are likely to be asked for, if known.
    """
    # Over the engine itself an update can move a document from one range into another.
    if seen is None and (access.index.multikey or access.checked or len(access.ranges) > 1):
        seen = set()
    # Who looks at no entry before it is asked for wants exact figures.
    entries = entries_of(coll, access, reader, examined, counted=ahead == 1)
    return fetching(coll, entries, reader, examined, seen, bare=bare, ahead=ahead, wanted=wanted)


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
    get, items = partial(reader.get, Family.RECORDS), partial(reader.items, Family.RECORDS)
    return Fetching(entries, get, items, coll.prefix, seen, bare, examined, ahead, wanted)
