# cython: annotation_typing=False
"""Reads that complete in one step, by a scan prepared for the form of their filter.

- The result equals that of the batched read path (`docstore.collection.read.execute`, `counting`, `matching`).
- A read sees one state: nothing is written before the step ends.
- None tells the caller to take the batched path: the filter needs another kind of plan, or more than one step.
"""

from __future__ import annotations

from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import cython

from docstore.bson.walk import EMPTY_DOCUMENT, Value
from docstore.collection.collection import Collection, Index
from docstore.collection.limits import MAX_CACHED_SORT_BYTES, MAX_SINGLE_RANGE_ENTRIES, MAX_STEP_ENTRIES
from docstore.collection.read.batching import Clock, both, first_documents, first_pairs, is_small
from docstore.collection.read.covered import first_of_each, made_of_entries, tells
from docstore.collection.read.fetch import ReadAhead, fetching, identities_of
from docstore.collection.read.near import nearest_documents
from docstore.collection.read.plan_cache import ScanKey
from docstore.collection.read.planning import usable_indexes
from docstore.collection.read.preparing import prepared_form
from docstore.errors import CommandError
from docstore.kernel.geometry.nearby import RadiusFilter
from docstore.kernel.limits import MAX_STEP_BYTES
from docstore.kernel.match.form import form_of
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.documents import count_scan
from docstore.kernel.scan.fetch import Examined, fetch_few, fetch_several
from docstore.key_layout import RECORD_ID_BYTES, long_of
from docstore.query.filter.tree import MATCH_ALL, ValueTest
from docstore.query.geo.cell_keys import Reach
from docstore.query.metadata import put_in_order
from docstore.query.plan.access import NearScan
from docstore.query.plan.index_bounds import covers
from docstore.query.plan.partial_filters import Decision
from docstore.query.plan.prepared_scan import PreparedCollection, PreparedScan, PreparedUnion
from docstore.query.plan.special.prepared import PreparedSearch
from docstore.query.value.collation import Collation
from docstore.storage import Family
from docstore.storage.engine import getter_of, keys_of_ranges, values_of_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from docstore.storage import Reader
    from docstore.storage.engine import Range

_EXPRESSION = b"$expr\0"
_INDEXES, _RECORDS = Family.INDEXES, Family.RECORDS


NOTHING = (0, b"")
"""The result if no document matches: no record id is 0."""


class BoundScan:
    """A prepared scan bound to the values of a request.

    It reads the entries in the ranges of `parts`, or all documents of the collection if there are no parts. `key`: the
    plan cache key of the scan. `near`: documents come by distance from a point. `reach`: an entry must lie in this
    region for its document to satisfy `predicate`.
    """

    def __init__(
        self,
        coll: Collection,
        key: ScanKey,
        scan: PreparedScan | PreparedUnion | PreparedCollection | PreparedSearch,
        parts: Sequence[tuple[Index, Sequence[Range]]],
        predicate: Predicate | None,
        near: NearScan | None = None,
        reach: Reach | None = None,
    ) -> None:
        self.coll = coll
        self.key = key
        self.scan = scan
        self.parts = parts
        self.predicate = predicate
        self.near = near
        self.reach = reach
        # Nearly all scans have one part.
        self._index: Index | None = None
        self._ranges: Sequence[Range] = ()
        if parts:
            self._index, self._ranges = parts[0]
        # True if entries may lead to a document twice.
        self._once: bool = len(parts) > 1 or (self._index is not None and self._index.multikey)

    @cython.ccall
    def documents(
        self,
        reader: Reader,
        limit: int,
        owned: Predicate | None,
        visited: list[bytes] | None = None,
        skip: int = 0,
        needs: frozenset[str] | None = None,
    ) -> list[bytes] | None:
        """Return the first `limit` documents after `skip`, in order; None if that exceeds one step.

        `visited`: a list that receives the entries of all documents returned, for `rest`. `needs`: the only paths
        requested of the documents; the scan may then be covered.
        """
        documents: list[bytes] = []
        order = self.scan.order
        reads_all = order is not None or limit > MAX_STEP_ENTRIES
        if reads_all and self.coll.plans.takes_long(self.key):
            return None
        # Without predicates, entries are skipped without fetching their documents.
        skipped = skip if order is None and self.predicate is None and owned is None and not self._once else 0
        # A sort needs all documents: one more than the limit of a step shows that there are too many.
        fetch_limit = MAX_STEP_ENTRIES + 1 if order is not None else skip - skipped + limit
        if needs is not None and order is None and owned is None and self._covers(needs):
            is_complete = self._read_covered(reader, skip, limit, documents)
            skipped = skip
        else:
            is_complete = self._fetch(reader, fetch_limit, owned, documents, visited, skipped)
        if not is_complete:
            if reads_all:
                self.coll.plans.took_long(self.key)
            return None
        skip -= skipped
        if order is not None:
            put_in_order(documents, order)
            del documents[skip + limit :]
        return documents[skip:] if skip else documents

    @cython.ccall
    def first(self, reader: Reader, owned: Predicate | None) -> tuple[int, bytes] | None:
        """Return (record id, document) of the first document, or `NOTHING`; None if that exceeds one step."""
        documents: list[bytes] = []
        visited: list[bytes] = []
        if self.scan.order is not None or not self._fetch(reader, 1, owned, documents, visited):
            return None
        self.used()
        return (long_of(visited[0][-RECORD_ID_BYTES:]), documents[0]) if documents else NOTHING

    def pairs(self, reader: Reader, limit: int, owned: Predicate | None) -> list[tuple[int, bytes]] | None:
        """Return (record id, document) pairs, otherwise as `documents`."""
        documents: list[bytes] = []
        visited: list[bytes] = []
        if self.scan.order is not None or not self._fetch(reader, limit, owned, documents, visited):
            return None
        return [(long_of(entry[-RECORD_ID_BYTES:]), raw) for entry, raw in zip(visited, documents, strict=True)]

    def counted(self, reader: Reader, owned: Predicate | None, clock: Clock, until: float) -> int | None:
        """Return the number of documents; None if it is unknown by `until`, or exceeds one step."""
        if self.predicate is not None or owned is not None or not self.parts:
            documents = self.documents(reader, MAX_STEP_ENTRIES + 1, owned)
            return None if documents is None else len(documents)
        if self._once:
            entries = list(islice(self._entries(reader, False), MAX_STEP_ENTRIES + 1))
            return len({entry[-RECORD_ID_BYTES:] for entry in entries}) if len(entries) <= MAX_STEP_ENTRIES else None
        count, exhausted = count_scan(self._entries(reader, False), None, clock, until)
        return count if exhausted else None

    def rest(self, reader: Reader, documents: list[bytes], visited: list[bytes]) -> Iterator[bytes] | None:
        """Yield the documents after those that `documents` returned with the entries `visited`, without applying
        predicates.

        The state must be the same. Return None if no entry marks the position: sorted, by distance, or a union with
        `_id`.
        """
        if self.scan.order is not None or self.near is not None:
            return None
        if not self.parts:
            return reader.values(_RECORDS, visited[-1] + b"\0", self.coll.end)
        by_id = self.parts[0][0].is_id
        if len(self.parts) > 1 and any(index.is_id for index, _ in self.parts):
            return None
        last = self.coll.id_key(documents[-1]) if by_id else visited[-1]
        ranges, reverse = [bounds for _, ranges in self.parts for bounds in ranges], self.scan.reverse
        if reverse and self._is_list:
            ranges.reverse()
            reverse = False
        (low, high), *later_ranges = _remaining_ranges(ranges, last, reverse)
        if by_id and self._is_list:
            entries = identities_of(reader, map(itemgetter(0), later_ranges))
        elif later_ranges:
            entries = (values_of_ranges if by_id else keys_of_ranges)(reader, _INDEXES, [(low, high), *later_ranges])
        else:
            entries = (reader.values if by_id else reader.keys)(_INDEXES, low, high, reverse)
        # A document that failed the predicates fails through its other entries too.
        seen = {entry[-RECORD_ID_BYTES:] for entry in visited} if self._once else None
        return cast("Iterator[bytes]", fetching(self.coll, entries, reader, Examined(), seen, bare=True))

    def values_at(self, path: str, reader: Reader) -> list[bytes] | None:
        """Return documents with the values at a path, each value once or a few times.

        None if the index does not cover the path, or that exceeds one step.
        """
        if not self._covers(frozenset((path,))) or self.scan.reverse:
            return None
        ((index, ranges),) = self.parts
        position = next(position for position, (field, _) in enumerate(index.fields) if field == path)
        return _first_of_each(self.coll, index, position + 1, ranges, reader)

    def is_by(self, path: str) -> bool:
        """True if the scan reads one index whose first field is `path`."""
        return len(self.parts) == 1 and self.parts[0][0].fields[0][0] == path

    def _covers(self, needs: frozenset[str]) -> bool:
        """True if the scan's index covers these paths, with one entry per document."""
        if self.predicate is not None or len(self.parts) != 1 or isinstance(self.scan, PreparedSearch):
            return False
        index = self.parts[0][0]
        return not index.multikey and not index.is_id and tells(index, needs)

    def _read_covered(self, reader: Reader, skip: int, limit: int, documents: list[bytes]) -> bool:
        """Append covered documents to `documents`; True if all, or `limit`, were read."""
        ((index, ranges),) = self.parts
        items = chain.from_iterable(reader.items(_INDEXES, low, high, self.scan.reverse) for low, high in ranges)
        entries = islice(items, skip, min(skip + limit, MAX_STEP_ENTRIES + 1))
        documents += made_of_entries(self.coll, index, entries, reader)
        return skip + len(documents) <= MAX_STEP_ENTRIES

    @cython.cfunc
    def _fetch(
        self,
        reader: Reader,
        limit: int,
        owned: Predicate | None,
        documents: list[bytes],
        visited: list[bytes] | None,
        skip: int = 0,
    ) -> bool:
        if not self.parts:
            return self._scan_collection(reader, limit, owned, documents, visited, skip)
        if self.near is not None:
            return self._fetch_nearest(self.near, reader, limit, owned, documents, visited, skip)
        scan, coll = self.scan, self.coll
        max_entries = min(scan.patience, MAX_STEP_ENTRIES) if scan.patience else MAX_STEP_ENTRIES
        predicate, once, is_short = self.predicate, self._once, limit + skip <= MAX_SINGLE_RANGE_ENTRIES
        if skip >= max_entries:
            return False
        entries = self._entries(reader, is_short)
        if self.reach is not None:
            ((index, _),) = self.parts
            entries = RadiusFilter(entries, self.reach[0], len(index.prefix), self.reach[1], MAX_STEP_ENTRIES)
        if skip:
            max_entries -= skip
            next(islice(entries, skip - 1, None), None)
        try:
            if is_short:
                get = getter_of(reader, _RECORDS)
                is_complete = fetch_few(
                    entries, get, coll.prefix, predicate, owned, once, limit, max_entries, documents, visited
                )
            else:
                seen: set[bytes] | None = set() if once else None
                ahead = ReadAhead(documents=limit)
                reading = fetching(coll, entries, reader, Examined(), seen, bare=True, read_ahead=ahead)
                is_complete = fetch_several(reading, predicate, owned, limit, max_entries, documents, visited)
        except CommandError:
            # An expression failed. The batched path fails likewise.
            return False
        if not is_complete and max_entries < MAX_STEP_ENTRIES and isinstance(scan, PreparedUnion):
            # The cache holds no plan for a union, only this scan: evict it, so that the plan is chosen anew.
            coll.plans.unprepare(self.key)
        return is_complete

    def _fetch_nearest(
        self,
        near: NearScan,
        reader: Reader,
        limit: int,
        owned: Predicate | None,
        documents: list[bytes],
        visited: list[bytes] | None,
        skip: int,
    ) -> bool:
        """Fetch by distance, otherwise as `_fetch`; `visited` receives record ids instead of entries."""
        predicate, examined, remaining_bytes = both(self.predicate, owned), Examined(), MAX_STEP_BYTES
        search_limit = 0 if predicate is not None or self.scan.order is not None else skip + limit
        try:
            for rid, raw in nearest_documents(self.coll, near, reader, examined, search_limit, MAX_STEP_ENTRIES):
                remaining_bytes -= len(raw)
                if remaining_bytes < 0:
                    return False
                if predicate is not None and not predicate.matches(raw):
                    continue
                if skip:
                    skip -= 1
                    continue
                documents.append(raw)
                if visited is not None:
                    visited.append(rid)
                if len(documents) == limit:
                    return True
        except CommandError:
            return False
        return examined.keys <= MAX_STEP_ENTRIES

    def _scan_collection(
        self,
        reader: Reader,
        limit: int,
        owned: Predicate | None,
        documents: list[bytes],
        visited: list[bytes] | None,
        skip: int,
    ) -> bool:
        """Scan the collection, otherwise as `_fetch`; `visited` receives record keys instead of entries."""
        if skip + limit > MAX_STEP_ENTRIES and not is_small(self.coll):
            return False
        predicate = both(self.predicate, owned)
        try:
            if visited is None:
                documents += first_documents(self.coll, reader, predicate, limit, skip)
                return True
            pairs = first_pairs(self.coll, reader, predicate, limit, skip)
        except CommandError:
            return False
        documents += [raw for _, raw in pairs]
        visited += [key for key, _ in pairs]
        return True

    @cython.ccall
    def used(self) -> None:
        """Increment the use counters of the indexes."""
        for index, _ in self.parts:
            index.uses += 1

    @property
    def _is_list(self) -> bool:
        """True if each range is a single value."""
        return isinstance(self.scan, PreparedScan) and self.scan.bounds.listed >= 0

    @cython.cfunc
    def _entries(self, reader: Reader, is_short: bool) -> Iterator[bytes]:
        """Yield byte strings that end in record ids: keys of entries, or values for the `_id` index.

        `is_short`: up to MAX_SINGLE_RANGE_ENTRIES are requested.
        """
        index, ranges, scan = self._index, self._ranges, self.scan
        if len(self.parts) > 1 or index is None:
            return self._entries_of_parts(reader)
        is_id = index.is_id
        if is_id and isinstance(scan, PreparedScan) and scan.of_one_key:
            entry = reader.get(_INDEXES, ranges[0][0])
            return iter(() if entry is None else (entry,))
        if is_id and self._is_list:
            return identities_of(reader, map(itemgetter(0), reversed(ranges) if scan.reverse else ranges))
        if scan.reverse or (not is_short and len(ranges) == 1):
            ((low, high),) = ranges
            return (reader.values if is_id else reader.keys)(_INDEXES, low, high, scan.reverse)
        return (values_of_ranges if is_id else keys_of_ranges)(reader, _INDEXES, ranges)

    def _entries_of_parts(self, reader: Reader) -> Iterator[bytes]:
        if not any(index.is_id for index, _ in self.parts):
            return keys_of_ranges(reader, _INDEXES, [bounds for _, ranges in self.parts for bounds in ranges])
        return chain.from_iterable(
            (values_of_ranges if index.is_id else keys_of_ranges)(reader, _INDEXES, ranges)
            for index, ranges in self.parts
        )


def values_of_all(coll: Collection, path: str, reader: Reader, *, newest: bool) -> list[bytes] | None:
    """Return documents with all values at a path of a collection, otherwise as `BoundScan.values_at`.

    `newest`: the reader shows the newest state, which the collection's counters describe.
    """
    for index in usable_indexes(coll):
        plain = index.fields[0][0] == path and not index.multikey and tells(index, frozenset((path,)))
        if plain and covers(MATCH_ALL, index).unbounded:
            index.uses += 1
            return _first_of_each(coll, index, 1, [(index.prefix, index.end)], reader)
    if newest and is_small(coll) and coll.options.clustered is None:
        return list(reader.values(_RECORDS, coll.prefix, coll.end))
    return None


def _first_of_each(
    coll: Collection, index: Index, fields: int, ranges: Sequence[Range], reader: Reader
) -> list[bytes] | None:
    documents = list(islice(first_of_each(coll, index, fields, ranges, reader), MAX_STEP_ENTRIES + 1))
    return documents if len(documents) <= MAX_STEP_ENTRIES else None


def has_expression(filter_: bytes) -> bool:
    """True if the filter may contain an `$expr`. False positives are possible."""
    return filter_.find(_EXPRESSION) >= 0


def _remaining_ranges(ranges: list[Range], last: bytes, reverse: bool) -> list[Range]:
    """Return the remaining ranges after the entry `last`. `reverse`: the only range is read from its end."""
    position = next(position for position, (low, high) in enumerate(ranges) if low <= last < high)
    low, high = ranges[position]
    return [(low, last) if reverse else (last + b"\0", high), *ranges[position + 1 :]]


def bound_scan(
    coll: Collection,
    filter_: bytes,
    reader: Reader,
    *,
    sort: bytes = EMPTY_DOCUMENT,
    counted: bool = False,
    hint: Value | None = None,
    collation: Collation | None = None,
    special: bool = False,
) -> BoundScan | None:
    """Return the scan for a filter, a sort and a hint as a request has them; None if none can be prepared.

    `collation`: the effective collation, by default the collection's. `counted`: only the number of documents is
    requested. `reader`: for a trial among several plans, the first time. `special`: the scan may be a geo or text
    search, whose documents have their own order or metadata.
    """
    if len(sort) > MAX_CACHED_SORT_BYTES or (hint is not None and len(hint[1]) > MAX_CACHED_SORT_BYTES):
        return None
    formed = form_of(filter_, True)
    if formed is None:
        return None
    form, values = formed
    key: ScanKey = (form, sort, counted, hint, collation, ())
    scan = prepared_form(coll, key, filter_, values, reader)
    if isinstance(scan, Decision):
        key = (form, sort, counted, hint, collation, scan.outcome(values))
        scan = prepared_form(coll, key, filter_, values, reader)
    if scan is None or isinstance(scan, Decision):
        return None
    if isinstance(scan, PreparedSearch) and not special and not isinstance(scan.first, ValueTest):
        return None
    if scan.looks_through and (scan.residual or scan.order) is not None and not is_small(coll):
        return None
    try:
        bound = scan.bound(values)
    except CommandError:
        # An invalid regular expression. The batched path reports it.
        return None
    if bound is None:
        return None
    # Plans of a collection use its `Index` objects.
    parts = cast("Sequence[tuple[Index, Sequence[Range]]]", bound[0])
    return BoundScan(coll, key, scan, parts, *bound[1:])


def bound_scan_of_write(
    coll: Collection,
    filter_: bytes,
    reader: Reader,
    *,
    sort: bytes = EMPTY_DOCUMENT,
    collation: Collation | None = None,
) -> BoundScan | None:
    """Return the scan as `bound_scan`; None for a filter with an `$expr`, whose evaluation cannot be interrupted in a
    write.
    """
    return None if has_expression(filter_) else bound_scan(coll, filter_, reader, sort=sort, collation=collation)
