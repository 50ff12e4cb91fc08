"""The output of find for each match: the document, its projection, the index key (`returnKey`), or the document with
its record id (`showRecordId`); and the metadata that a projection requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from docstore.bson import EMPTY_DOCUMENT, Value, document_from, elements, from_python, get_field
from docstore.bson.build import array_value
from docstore.bson.walk import INT64, OBJECT
from docstore.collection.collection import Collection, Index
from docstore.collection.index.duplicates import index_values, key_values
from docstore.collection.index.keys import hashed_members
from docstore.collection.read.index_access import keys_within
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.find import FindQuery
from docstore.query.plan.access import IdLookup, IndexScan, Merge, Plan, Union
from docstore.query.plan.wildcard import path_key
from docstore.query.projection.projection import Compute, metadata_kinds, with_metadata
from docstore.query.unsupported import not_supported

if TYPE_CHECKING:
    from docstore.storage import Reader


class FindOutput(Protocol):
    def apply(self, raw: bytes) -> bytes:
        """Return the output document for a stored document."""


def find_output(query: FindQuery, plan: Plan, coll: Collection | None, reader: Reader) -> FindOutput | None:
    """Return the query's output stage; None if it returns documents as stored."""
    projection = query.projection
    if coll is None:
        return projection
    if query.return_key:
        return _Keys(plan)
    if projection is not None and metadata_kinds(projection):
        projection = with_metadata(projection, partial(_metadata, query, plan, coll, reader))
    if query.show_record_id:
        return _RecordIds(projection, coll, reader)
    return projection


def _metadata(query: FindQuery, plan: Plan, coll: Collection, reader: Reader, kind: str) -> Compute:
    """Return a function from a document to its metadata of that kind."""
    if kind == "recordId":
        return partial(_record_id, coll, reader)
    if kind == "indexKey":
        keys = _Keys(plan)
        return lambda raw: None if (key := keys.apply(raw)) == EMPTY_DOCUMENT else (OBJECT, key)
    if not query.sort.fields:
        return lambda raw: array_value([])
    pattern = KeyPattern(query.sort.fields)
    return lambda raw: array_value(key_values(pattern, raw, pattern.sort_key(raw)))


def _record_id(coll: Collection, reader: Reader, raw: bytes) -> Value:
    identity = get_field(raw, "_id")
    assert identity is not None, "a stored document has an _id"
    record = coll.by_id(reader, identity)
    assert record is not None, "a document that was found is there"
    return INT64, record[0].to_bytes(8, "little")


class _RecordIds:
    """Output the projected document with its record id appended."""

    def __init__(self, projection: FindOutput | None, coll: Collection, reader: Reader) -> None:
        self._projection = projection
        self._coll = coll
        self._reader = reader

    def apply(self, raw: bytes) -> bytes:
        document = raw if self._projection is None else self._projection.apply(raw)
        return document_from([*elements(document), ("$recordId", *_record_id(self._coll, self._reader, raw))])


class _Keys:
    """Output the key of the index entry that led to the document; an empty document if no index was read."""

    def __init__(self, plan: Plan) -> None:
        access = plan.access
        self._branches = access.branches if isinstance(access, Union | Merge) else (access,)

    def apply(self, raw: bytes) -> bytes:
        for branch in self._branches:
            if isinstance(branch, IndexScan):
                key = _first_key(branch, raw)
                if key is not None:
                    return document_from([(name, *value) for name, value in _members(branch, raw, key)])
            elif isinstance(branch, IdLookup):
                identity = get_field(raw, "_id")
                assert identity is not None, "a stored document has an _id"
                return document_from([("_id", *identity)])
        return EMPTY_DOCUMENT


def _first_key(scan: IndexScan, raw: bytes) -> bytes | None:
    assert isinstance(scan.index, Index), "plans are made over a collection's own indexes"
    return next(iter(keys_within(scan, scan.index.keys(raw)[0])), None)


def _members(scan: IndexScan, raw: bytes, key: bytes) -> list[tuple[str, Value]]:
    index = scan.index
    assert isinstance(index, Index), "plans are made over a collection's own indexes"
    paths = [path for path, _ in index.fields]
    if index.spec.hashed:
        return list(zip(paths, hashed_members(index.spec, raw), strict=True))
    if scan.wildcard is None:
        return list(zip(paths, index_values(index, raw, key), strict=True))
    if len(index.fields) > 1:
        raise not_supported("option of a find by a compound wildcard index", "returnKey")
    path = scan.wildcard.path
    members = [("$_path", from_python(path))]
    start = path_key(path)
    if key.startswith(start):
        members.append((path, key_values(KeyPattern([(path, 1)]), raw, key[len(start) :])[0]))
    return members
