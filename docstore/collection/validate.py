"""Holding a collection against itself: records, index entries and counters, both ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docstore.bson import encode_key, get_field
from docstore.bson.layout import RECORD_ID_BYTES
from docstore.bson.validation import validate as validate_document
from docstore.collection.collection import Collection, Index
from docstore.errors import CommandError
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

_MOST_ERRORS = 100


@dataclass(slots=True)
class Report:
    """What `validate` has found. `errors` are sentences, at most 100 of them; `keys` counts the entries of each
    index.
    """

    count: int = 0
    size: int = 0
    keys: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        return not self.errors

    def add(self, error: str) -> None:
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(error)


def validate(coll: Collection, reader: Reader) -> Report:
    """Check every document and every index entry of the collection in the reader's state, which must be its newest.

    Takes time and memory in proportion to the number of index entries; nothing else may run on the thread meanwhile.
    """
    report = Report()
    wanted: dict[str, set[bytes]] = {name: set() for name in coll.indexes}
    for key, raw in reader.items(Family.RECORDS, coll.prefix, coll.end):
        _check_document(coll, key, raw, wanted, report)
    for index in coll.indexes.values():
        _check_index(coll, index, wanted[index.name], reader, report)
    if coll.count != report.count:
        report.add(f"{coll.ns} holds {report.count} documents, but counts {coll.count}")
    if coll.size != report.size:
        report.add(f"{coll.ns} holds {report.size} bytes, but counts {coll.size}")
    return report


def _check_document(coll: Collection, key: bytes, raw: bytes, wanted: dict[str, set[bytes]], report: Report) -> None:
    rid = key[-RECORD_ID_BYTES:]
    report.count += 1
    report.size += len(raw)
    try:
        validate_document(raw)
    except CommandError as error:
        report.add(f"record {rid.hex()} is not BSON: {error.message}")
        return
    id_value = get_field(raw, "_id")
    if id_value is None:
        report.add(f"record {rid.hex()} has no _id")
        return
    wanted[coll.id_index.name].add(coll.id_prefix + encode_key(id_value) + rid)
    for index in coll.indexes.values():
        if index.is_id:
            continue
        keys, multikey = index.keys(raw)
        if multikey and not index.multikey:
            report.add(f"record {rid.hex()} has an array under index {index.name}, which is not marked as multikey")
        wanted[index.name].update(index.prefix + key + rid for key in keys)


def _check_index(coll: Collection, index: Index, wanted: set[bytes], reader: Reader, report: Report) -> None:
    found = 0
    previous = b""
    for key, value in reader.items(Family.INDEXES, index.prefix, index.end):
        found += 1
        entry = key + value if index.is_id else key
        if entry in wanted:
            wanted.discard(entry)
        else:
            report.add(f"index {index.name} has an entry that no document asks for: {entry.hex()}")
        if index.unique and entry[:-RECORD_ID_BYTES] == previous:
            report.add(f"index {index.name} has two documents under one unique key: {entry.hex()}")
        previous = entry[:-RECORD_ID_BYTES]
    report.keys[index.name] = found
    for entry in sorted(wanted)[:_MOST_ERRORS]:
        report.add(f"index {index.name} lacks an entry: {entry.hex()}")
