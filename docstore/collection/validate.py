"""Consistency checks of a collection: records against index entries and counters, and vice versa."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from docstore.bson import get_field
from docstore.bson.validation import validate as validate_document
from docstore.collection.collection import Collection, Index
from docstore.collection.limits import MAX_REPORTED_ERRORS
from docstore.errors import CommandError
from docstore.key_layout import RECORD_ID_BYTES
from docstore.storage import DataCorrupted, Family

if TYPE_CHECKING:
    from docstore.collection.storage_mode import EntryMerger
    from docstore.storage import Reader

_CLOCK_EVERY = 64
_ONE = 1 << 80
"""Added per entry besides its hash, so that a sum also encodes the count."""


@dataclass(slots=True)
class Report:
    """The result of `validate`. `errors`: at most 100 sentences. `keys`: the number of entries per index."""

    count: int = 0
    size: int = 0
    keys: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        return not self.errors

    def add(self, error: str) -> None:
        if len(self.errors) < MAX_REPORTED_ERRORS:
            self.errors.append(error)


class Validation:
    """An incremental check of one collection in the state of `reader`. `report` is complete when `step` returns True.

    Take the reader when you create the validation: the counters are those of that moment. Expected and stored entries
    are compared by count and sum of hashes; only if these differ are they compared individually, in memory.
    """

    def __init__(self, coll: Collection, reader: Reader, merger: EntryMerger | None) -> None:
        self.report = Report()
        self._coll = coll
        self._reader = reader
        self._merger = merger
        self._indexes = tuple(coll.indexes.values())
        self._counted = (coll.count, coll.size)
        self._work = self._run()

    def step(self, deadline: float) -> bool:
        """Continue until the monotonic time `deadline`; True when the check is complete."""
        return all(monotonic() < deadline for _ in self._work)

    def _run(self) -> Iterator[None]:
        """Run the check, yielding regularly."""
        report, ns = self.report, self._coll.ns
        if self._coll.options.family is not None:
            yield from self._check_records()
        expected_sums = dict.fromkeys((index.name for index in self._indexes), 0)
        yield from self._check_documents(expected_sums)
        for index in self._indexes:
            yield from self._check_index(index, expected_sums[index.name])
        count, size = self._counted
        if count != report.count:
            report.add(f"{ns} holds {report.count} documents, but counts {count}")
        if size != report.size:
            report.add(f"{ns} holds {report.size} bytes, but counts {size}")

    def _check_records(self) -> Iterator[None]:
        """Count and check the records of a column family."""
        report, ns, merger = self.report, self._coll.ns, self._merger
        assert merger is not None, f"{ns} is of a mode that this store does not have"
        try:
            for count, (key, record) in enumerate(merger.stored(self._reader, self._coll), 1):
                report.count += 1
                report.size += len(key) + len(record)
                if not merger.is_record(record):
                    report.add(f"what stands under {key.hex()} is neither a cell nor a deletion")
                if count % _CLOCK_EVERY == 0:
                    yield
        except DataCorrupted as error:
            report.add(f"rows of {ns} cannot be read: {error}")

    def _check_documents(self, expected_sums: dict[str, int]) -> Iterator[None]:
        """Check each document, and add its expected entries to the sums in `expected_sums`."""
        coll, report = self._coll, self.report
        try:
            for count, (key, raw) in enumerate(self._reader.items(Family.RECORDS, coll.prefix, coll.end), 1):
                report.count += 1
                report.size += len(raw)
                rid = key[-RECORD_ID_BYTES:]
                error = _damage(raw)
                if error is not None:
                    report.add(f"record {rid.hex()} {error}")
                    continue
                for index in self._indexes:
                    keys, array_bits, marks = index.marked_keys(raw, tolerant=True)
                    if array_bits & ~index.array_bits:
                        report.add(
                            f"record {rid.hex()} has an array under index {index.name}, which does not know of it"
                        )
                    expected_sums[index.name] += sum(map(hash, _entries(index, keys, rid, marks))) + len(keys) * _ONE
                if count % _CLOCK_EVERY == 0:
                    yield
        except DataCorrupted as error:
            report.add(f"documents of {coll.ns} cannot be read: {error}")

    def _check_index(self, index: Index, expected_sum: int) -> Iterator[None]:
        """Compare the stored entries with the expected sum."""
        report = self.report
        count = total = 0
        previous = b""
        try:
            for key, value in self._reader.items(Family.INDEXES, index.prefix, index.end):
                count += 1
                total += hash(key + value) + _ONE
                if index.unique and not index.is_id:
                    if key[:-RECORD_ID_BYTES] == previous:
                        report.add(f"index {index.name} has two documents under one unique key: {key.hex()}")
                    previous = key[:-RECORD_ID_BYTES]
                if count % _CLOCK_EVERY == 0:
                    yield
        except DataCorrupted as error:
            report.add(f"index {index.name} cannot be read: {error}")
        else:
            if total != expected_sum:
                yield from self._tell_differences(index)
        report.keys[index.name] = count

    def _tell_differences(self, index: Index) -> Iterator[None]:
        coll, report = self._coll, self.report
        expected_entries: set[bytes] = set()
        for key, raw in self._reader.items(Family.RECORDS, coll.prefix, coll.end):
            if _damage(raw) is None:
                keys, _, marks = index.marked_keys(raw, tolerant=True)
                expected_entries.update(_entries(index, keys, key[-RECORD_ID_BYTES:], marks))
            yield
        for key, value in self._reader.items(Family.INDEXES, index.prefix, index.end):
            entry = key + value
            if entry in expected_entries:
                expected_entries.discard(entry)
            else:
                report.add(f"index {index.name} has an entry that no document asks for: {entry.hex()}")
            yield
        for entry in sorted(expected_entries)[:MAX_REPORTED_ERRORS]:
            report.add(f"index {index.name} lacks an entry: {entry.hex()}")


def validate(coll: Collection, reader: Reader, merger: EntryMerger | None) -> Report:
    """Check all documents and index entries of the collection without pausing."""
    validation = Validation(coll, reader, merger)
    validation.step(inf)
    return validation.report


def _damage(raw: bytes) -> str | None:
    """Return the defect of a stored document."""
    try:
        validate_document(raw)
    except CommandError as error:
        return f"is not BSON: {error.message}"
    return "has no _id" if get_field(raw, "_id") is None else None


def _entries(index: Index, keys: list[bytes], rid: bytes, marks: bytes) -> list[bytes]:
    """Return a document's entries in the index: each key with its record id and marks."""
    prefix = index.prefix
    tail = marks + rid if index.is_id else rid + marks
    return [prefix + key + tail for key in keys]
