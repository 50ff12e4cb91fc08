"""Index scans in plan order: the entries of one scan, or of several scans merged into one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from docstore.collection.collection import Collection, Index
from docstore.kernel.scan.fetch import Examined
from docstore.kernel.scan.index_bounds import Bounded, FieldBounds, field_end
from docstore.key_layout import IDENT_BYTES
from docstore.query.plan.access import IndexScan, Merge
from docstore.query.value.long_lists import paced
from docstore.storage import Family
from docstore.storage.engine import keys_of_ranges, seeking, values_of_ranges

if TYPE_CHECKING:
    from docstore.kernel.scan.watched import Sought
    from docstore.storage import Reader

_INDEXES = Family.INDEXES
_SEVERAL = 16
"""From this number of ranges on, a multi-range seek is cheaper: less per range, more per entry."""


def items_of(
    coll: Collection, access: IndexScan, reader: Reader, examined: Examined, *, counted: bool = True
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, value) of the scan's entries. Entries examined are counted in `examined`.

    If not `counted`, few ranges of one field are read without a multi-range iterator.
    """
    index = cast("Index", access.index)
    if not counted and access.checked and len(access.bounds) == 1 and not access.once and not access.wildcard:
        (ranges,) = access.field_ranges()
        if len(ranges) < _SEVERAL:
            reverse = access.direction < 0
            return chain.from_iterable(
                reader.items(_INDEXES, index.prefix + lo, index.prefix + hi, reverse)
                for lo, hi in (reversed(ranges) if reverse else ranges)
            )
    return _read(index, access, reader, examined, pairs=True)


def entries_of(
    coll: Collection, access: IndexScan, reader: Reader, examined: Examined, *, counted: bool = True
) -> Iterator[bytes]:
    """Yield byte strings that end in the record ids of the scan's entries; otherwise as `items_of`.

    If not `counted`, many ranges of one field are read by multi-range seeks.
    """
    index = cast("Index", access.index)
    if not counted and access.direction > 0 and len(access.bounds) == 1 and not access.once and not access.wildcard:
        (ranges,) = access.field_ranges()
        if len(ranges) >= _SEVERAL:
            read = values_of_ranges if index.is_id else keys_of_ranges
            return read(reader, _INDEXES, [(index.prefix + lo, index.prefix + hi) for lo, hi in paced(ranges)])
    if not index.is_id:
        return _read(index, access, reader, examined, pairs=False)
    # Entries of the `_id` index hold the record id as their value.
    if access.checked:
        return map(itemgetter(1), items_of(coll, access, reader, examined))
    return _opened(access, partial(reader.values, _INDEXES), index.prefix, index.end, examined, pairs=False)


def keys_within(access: IndexScan, keys: list[bytes]) -> list[bytes]:
    """Return the subset of a document's index keys that lies in the scan's bounds, in scan order."""
    ordered = sorted(keys, reverse=access.direction < 0)

    def between(start: bytes, end: bytes, _reverse: bool) -> Iterator[bytes]:
        return (key for key in ordered if start <= key < end)

    return list(_opened(access, between, b"", b"\xff", Examined(), pairs=False))


def _read(index: Index, access: IndexScan, reader: Reader, examined: Examined, *, pairs: bool) -> Iterator[Any]:
    """Yield the keys of the entries, or (key, value) pairs."""
    read = partial(reader.items if pairs else reader.keys, _INDEXES)
    sought = None
    if access.direction > 0 and (access.checked or access.once):
        sought = seeking(reader, _INDEXES, index.end, pairs=pairs)
    return _opened(access, read, index.prefix, index.end, examined, pairs=pairs, sought=sought)


def _opened(
    access: IndexScan,
    read: Callable[[bytes, bytes, bool], Iterator[Any]],
    prefix: bytes,
    end: bytes,
    examined: Examined,
    *,
    pairs: bool,
    sought: Sought | None = None,
) -> Iterator[Any]:
    reverse = access.direction < 0
    if access.checked or access.once:
        fields = (
            access.index.fields
            if access.wildcard is None
            else [(field.path, field.direction) for field in access.bounds]
        )
        descending = [direction < 0 for _, direction in fields]
        return Bounded(
            lambda lo, hi: read(lo, hi, reverse),
            FieldBounds(prefix, end, access.field_ranges(), descending),
            reverse,
            pairs,
            examined,
            access.once,
            sought,
        )
    if len(access.ranges) == 1:
        lo, hi = access.ranges[0]
        return read(prefix + lo, prefix + hi, reverse)
    return chain.from_iterable(
        read(prefix + lo, prefix + hi, reverse) for lo, hi in (reversed(access.ranges) if reverse else access.ranges)
    )


def merged_entries(coll: Collection, access: Merge, reader: Reader, examined: list[Examined]) -> Iterator[bytes]:
    """Yield the entries of all branches, merged by the key fields after each branch's equality prefix.

    `examined` has one counter per branch.
    """
    streams = [
        _counted(entries_of(coll, branch, reader, counter), counter)
        for branch, counter in zip(access.branches, examined, strict=True)
    ]
    reverse = access.branches[0].direction < 0
    keyed = [
        _behind_fields(stream, [direction < 0 for _, direction in branch.index.fields[:count]])
        for stream, branch, count in zip(streams, access.branches, access.fixed, strict=True)
    ]
    return map(itemgetter(1), merge(*keyed, key=itemgetter(0), reverse=reverse))


def _counted(entries: Iterator[bytes], examined: Examined) -> Iterator[bytes]:
    for entry in entries:
        examined.keys += 1
        yield entry


def _behind_fields(entries: Iterator[bytes], descending: list[bool]) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key without its leading fields, entry)."""
    masks = [0xFF if is_descending else 0 for is_descending in descending]
    for entry in entries:
        at = IDENT_BYTES
        for mask in masks:
            at = field_end(entry, at, mask)
        yield entry[at:], entry
