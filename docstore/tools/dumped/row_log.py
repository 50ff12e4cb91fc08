"""Replay of log entries that merge mutations into rows of column families, by commands that any server accepts.

Timestamps decide, so a replay over any state, even a second one, is right. Removals of garbage are skipped. So are
entries of CQL tables, and of column families that the server does not have: no dump has them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bson.binary import Binary
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from docstore.kernel.columns.encoding import EXPIRING, TOMBSTONE
from docstore.sharding.partitioners import Partitioner
from docstore.tools.connection import Client
from docstore.tools.text.extended_json import EXACT
from docstore.widecolumn.model.cells import unpack_cell, unpack_deletion
from docstore.widecolumn.model.column_families import partitioner_of
from docstore.widecolumn.model.comparator_registry import Registry
from docstore.widecolumn.model.comparators import Comparator
from docstore.widecolumn.model.keys import COLUMNS, ROW_DELETION, SUB_COLUMN, SUPER_DELETION, decode_row_key
from docstore.widecolumn.model.mutations import Entry, unpack_entries

_CONSISTENCY = "QUORUM"
_NAMESPACE_NOT_FOUND = 26
_NOT_SUPPORTED = 115
_MUTATIONS = 1000
_COMPARATORS = Registry()


class _Family(NamedTuple):
    """The comparators of a column family. `subcomparator`: only for Super families."""

    partitioner: Partitioner
    comparator: Comparator
    subcomparator: Comparator | None


class RowLog:
    """Entries of column families on their way into a server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._families: dict[str, _Family | None] = {}

    def apply(self, namespace: str, change: Mapping[str, Any]) -> None:
        """Apply a merge entry; `change` is its `o`. Errors: PyMongoError."""
        family = self._family(namespace)
        if family is None or "m" not in change:
            return
        keyspace, _, name = namespace.partition(".")
        path = {"columnFamily": name, "key": Binary(decode_row_key(family.partitioner, bytes(change["r"])))}
        mutations = [path | mutation for mutation in _mutations(family, unpack_entries(bytes(change["m"])))]
        for start in range(0, len(mutations), _MUTATIONS):
            part = mutations[start : start + _MUTATIONS]
            command = {"wcBatchMutate": 1, "mutations": part, "consistency": _CONSISTENCY}
            self._client.get_database(keyspace).command(command, codec_options=EXACT)

    def truncate(self, namespace: str) -> None:
        """Apply a truncation. Errors: PyMongoError."""
        keyspace, _, name = namespace.partition(".")
        if self._family(namespace) is not None:
            self._client.get_database(keyspace).command({"wcTruncate": name})

    def _family(self, namespace: str) -> _Family | None:
        if namespace not in self._families:
            self._families[namespace] = self._described(*namespace.split(".", 1))
        return self._families[namespace]

    def _described(self, keyspace: str, name: str) -> _Family | None:
        try:
            described = self._client.get_database(keyspace).command("describeKeyspace", codec_options=EXACT)
        except OperationFailure as error:
            if error.code in (_NAMESPACE_NOT_FOUND, _NOT_SUPPORTED):
                return None
            raise
        for family in described["columnFamilies"]:
            if family["name"] == name and family["columnType"] in ("Standard", "Super"):
                sub = family.get("compareSubcolumnsWith")
                return _Family(
                    partitioner_of(described["partitioner"]),
                    _COMPARATORS.find(family["compareWith"]),
                    None if sub is None else _COMPARATORS.find(sub),
                )
        return None


def _mutations(family: _Family, entries: tuple[Entry, ...]) -> Iterator[dict[str, Any]]:
    """Yield the entries as mutations of `wcBatchMutate`, without their row."""
    for path, record, _ in entries:
        if path == ROW_DELETION:
            yield {"deletion": _deletion(record)}
            continue
        name, end = family.comparator.decode(path, len(COLUMNS))
        if family.subcomparator is None:
            yield _column(name, record)
        elif path[end:] == SUPER_DELETION:
            yield {"deletion": {"superColumn": Binary(name), **_deletion(record)}}
        else:
            column, _ = family.subcomparator.decode(path, end + len(SUB_COLUMN))
            yield _column(column, record, name)


def _deletion(record: bytes) -> dict[str, Any]:
    return {"timestamp": Int64(unpack_deletion(record).timestamp)}


def _column(name: bytes, record: bytes, super_name: bytes | None = None) -> dict[str, Any]:
    """Return the mutation that writes or deletes a column. An expiring one gets at least one second, because it hides
    older ones.
    """
    cell = unpack_cell(record)
    timestamp = {"timestamp": Int64(cell.timestamp)}
    if cell.flags & TOMBSTONE:
        path = {} if super_name is None else {"superColumn": Binary(super_name)}
        return {"deletion": {**path, "columnNames": [Binary(name)], **timestamp}}
    column = {"name": Binary(name), "value": Binary(cell.value), **timestamp}
    # Zero is said too: the family may have a time to live of its own.
    column["ttl"] = max(cell.local_deletion - int(time.time()), 1) if cell.flags & EXPIRING else 0
    if super_name is None:
        return {"insert": column}
    return {"insertSuper": {"name": Binary(super_name), "columns": [column]}}
