"""Column families in a dump: documents `{key, columns}` or `{key, superColumns}`, each a row or a part of one.

The metadata has the type `columnFamily`, and in its options the definitions of the keyspace and of the family.
Columns keep their timestamps and the rest of their time to live, so restoring twice, or over newer columns, does no
harm. A dump has no deletions. Tables of CQL are no column families to clients, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bson import decode, encode
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database
from pymongo.errors import OperationFailure

from docstore.tools.connection import Client
from docstore.tools.insertion import Counts
from docstore.tools.text.extended_json import EXACT

TYPE = "columnFamily"
KEYSPACE = "keyspace"
"""The field of a collection's options that makes it a column family or the description of a keyspace."""

_PAGES = ((100, 1000), (25, 1000), (6, 1000), (2, 1000), (2, 100), (2, 10), (2, 2))
"""Rows of a page, and columns of each. A page begins with the last row of the one before, a slice with a column."""
_NO_TTL = {"ttl": 0}
"""What lives for ever does so whatever the family's default is."""
_MUTATIONS = 1000
_BYTES = 4 << 20
_CONSISTENCY = "QUORUM"
_NAMESPACE_NOT_FOUND = 26
_NAMESPACE_EXISTS = 48
_OF_KEYSPACES = ("replication", "durableWrites", "partitioner")
_OF_FAMILIES = (
    "columnType", "compareWith", "compareSubcolumnsWith", "gcGraceSeconds", "defaultTtl", "keysCached", "rowsCached",
)  # fmt: skip


def describe_families(client: Client, keyspace: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """(metadata of each column family, names of the tables of CQL)."""
    described = client.get_database(keyspace).command("describeKeyspace", codec_options=EXACT)
    options = {name: described[name] for name in _OF_KEYSPACES if name in described}
    metadata: dict[str, dict[str, Any]] = {}
    tables: list[str] = []
    for family in described["columnFamilies"]:
        if family["columnType"] not in ("Standard", "Super"):
            tables.append(family["name"])
            continue
        definition = {name: family[name] for name in _OF_FAMILIES if name in family}
        options_field = {"options": {KEYSPACE: options, TYPE: definition}}
        metadata[family["name"]] = {"indexes": [], "collectionName": family["name"], "type": TYPE, **options_field}
    return metadata, tables


class FamilyReading:
    """The rows of a column family, as of the time of reading."""

    def __init__(self, client: Client, keyspace: str, family: str) -> None:
        self._database = client.get_database(keyspace)
        self._family = family

    def close(self) -> None:
        """Do nothing: no resource is open between two pages."""

    def total(self) -> int | None:
        """Unknown: rows are not counted."""
        return None

    def batches(self) -> Iterator[bytes]:
        """Documents behind each other. Errors: PyMongoError."""
        start: Any = ""
        size = 0
        while True:
            count, columns = _PAGES[size]
            try:
                rows = self._rows(start, count, columns)
            except OperationFailure:
                # Less may fit into a reply, where it was too large.
                if size == len(_PAGES) - 1:
                    raise
                size += 1
                continue
            new = rows[1:] if rows and start != "" and rows[0]["key"] == start else rows
            for row in new:
                yield from self._parts(row, columns)
            if not new:
                return
            start = rows[-1]["key"]
            size = max(size - 1, 0)

    def _rows(self, start: Any, count: int, columns: int) -> list[dict[str, Any]]:
        reply = self._command(
            {
                "wcGetRangeSlices": self._family,
                "predicate": {"sliceRange": {"count": columns}},
                "range": {"startKey": start, "endKey": ""},
                "count": count,
                "excludeEmpty": True,
            }
        )
        rows: list[dict[str, Any]] = reply["rows"]
        return rows

    def _parts(self, row: dict[str, Any], columns: int) -> Iterator[bytes]:
        """Yield a row in documents of some megabytes, including the columns beyond the first page of `columns`."""
        kind = "columns" if "columns" in row else "superColumns"
        part = row[kind]
        while part:
            for batch in _batches_of(part):
                yield encode({"key": row["key"], kind: batch}, codec_options=EXACT)
            if len(part) < columns - 1:
                return
            last = part[-1]["name"]
            predicate = {"sliceRange": {"start": last, "count": columns}}
            reply = self._command({"wcGetSlice": self._family, "key": row["key"], "predicate": predicate})
            part = [column for column in reply[kind] if column["name"] != last]

    def _command(self, command: dict[str, Any]) -> dict[str, Any]:
        return self._database.command(command | {"consistency": _CONSISTENCY}, codec_options=EXACT)


def _batches_of(documents: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield documents in lists of at most `_MUTATIONS`, which have at most `_BYTES` together or are of one."""
    batch: list[dict[str, Any]] = []
    size = 0
    for document in documents:
        length = len(encode(document, codec_options=EXACT))
        if batch and (len(batch) == _MUTATIONS or size + length > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += length
    if batch:
        yield batch


def make_family(database: Database[Any], family: str, options: dict[str, Any], *, drop: bool) -> bool:
    """Create a column family and its keyspace; False if it exists. Errors: PyMongoError."""
    keyspace = {"createKeyspace": database.name, **options.get(KEYSPACE, {}), "ifNotExists": True}
    database.client.get_database("admin").command(keyspace)
    if drop:
        _tolerant(database, {"dropColumnFamily": family}, _NAMESPACE_NOT_FOUND)
    return _tolerant(database, {"createColumnFamily": family, **options.get(TYPE, {})}, _NAMESPACE_EXISTS)


def write_rows(database: Database[Any], family: str, documents: Sequence[RawBSONDocument]) -> Counts:
    """Write the documents of a dump. Errors: PyMongoError."""
    rows = (decode(document.raw, EXACT) for document in documents)
    for mutations in _batches_of(mutation for row in rows for mutation in _mutations(family, row)):
        database.command({"wcBatchMutate": 1, "mutations": mutations, "consistency": _CONSISTENCY})
    return Counts(len(documents))


def _mutations(family: str, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    path = {"columnFamily": family, "key": row["key"]}
    for column in row.get("columns", ()):
        yield path | {"insert": _NO_TTL | column}
    for column in row.get("superColumns", ()):
        yield path | {
            "insertSuper": {"name": column["name"], "columns": [_NO_TTL | each for each in column["columns"]]}
        }


def _tolerant(database: Database[Any], command: dict[str, Any], code: int) -> bool:
    try:
        database.command(command)
    except OperationFailure as error:
        if error.code != code:
            raise
        return False
    return True
