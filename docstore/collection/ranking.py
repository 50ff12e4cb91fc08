"""Which of several plans to run: their index entries are counted side by side, for a short while.

The ranges of the likeliest index by the form of its bounds need not be the shortest. The first whose entries come to an
end is taken; when none does, the form of the bounds decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from docstore.collection.collection import Collection
from docstore.query.plan import IndexScan, Plan
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

_INDEXES = Family.INDEXES
_MOST_PLANS = 4
_MOST_ENTRIES = 101


def tried(coll: Collection, plan: Plan, reader: Reader) -> Plan:
    """The plan of these that has the fewest entries to look at, the others as its `rejected`."""
    plans = (replace(plan, rejected=()), *plan.rejected)
    running: list[tuple[Plan, Iterator[bytes]]] = [
        (each, entries_of(coll, each.access, reader))
        for each in plans[:_MOST_PLANS]
        if isinstance(each.access, IndexScan) and each.provides_sort == plan.provides_sort
    ]
    for _ in range(_MOST_ENTRIES):
        for each, entries in running:
            if next(entries, None) is None:
                return replace(each, rejected=tuple(other for other in plans if other is not each))
    return plan


def items_of(coll: Collection, access: IndexScan, reader: Reader) -> Iterator[tuple[bytes, bytes]]:
    """The entries in the plan's ranges with their values, in its direction."""
    reverse = access.direction < 0
    prefix = coll.indexes[access.index.name].prefix
    return chain.from_iterable(
        reader.items(_INDEXES, prefix + lo, prefix + hi, reverse)
        for lo, hi in (reversed(access.ranges) if reverse else access.ranges)
    )


def entries_of(coll: Collection, access: IndexScan, reader: Reader) -> Iterator[bytes]:
    """What ends in the record ids of the entries in the plan's ranges, in its direction."""
    index = coll.indexes[access.index.name]
    reverse = access.direction < 0
    # Entries of the `_id` index hold the record id as their value.
    read = reader.values if index.is_id else reader.keys
    prefix = index.prefix
    ranges = access.ranges
    if len(ranges) == 1:
        return read(_INDEXES, prefix + ranges[0][0], prefix + ranges[0][1], reverse)
    return chain.from_iterable(
        read(_INDEXES, prefix + lo, prefix + hi, reverse) for lo, hi in (reversed(ranges) if reverse else ranges)
    )
