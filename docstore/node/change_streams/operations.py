"""The operations of an oplog entry that change streams report, in order.

An entry is one operation, or contains several: those of a transaction, which take effect with its last entry, and
grouped inserts. Documents moved by a migration are not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from docstore.aggregation.change_stream.errors import history_lost
from docstore.bson import Value, elements, get_field
from docstore.collection.catalog.views import SYSTEM_VIEWS
from docstore.collection.oplog.operations import ABORT, COMMIT, PARTIAL, PREPARE, chained_operations, operations_of
from docstore.kernel.compute.change_events import DELETE, INSERT, UPDATE, DocumentEntry, document_entry
from docstore.namespace import split_namespace
from docstore.node.change_streams.events import StreamOperation
from docstore.node.change_streams.operation import SHARDED, EntryFields

if TYPE_CHECKING:
    from docstore.collection.oplog.oplog import Oplog

_DOCUMENTS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}
_COMMANDS = {
    "drop": "drop",
    "renameCollection": "rename",
    "dropDatabase": "dropDatabase",
    "create": "create",
    "createIndexes": "createIndexes",
    "dropIndexes": "dropIndexes",
    "collMod": "modify",
}
_OF_VIEWS = {"insert": "create", "update": "modify", "delete": "drop"}


def operations_in(entry: bytes, oplog: Oplog) -> Sequence[StreamOperation]:
    """Return the operations of an entry. Errors: ChangeStreamHistoryLost if a transaction's entries were truncated."""
    change = document_entry(entry)
    if change is not None:
        stream_operation = _of_document(change, EntryFields(change[5], change[6]), 0)
        return () if stream_operation is None else (stream_operation,)
    fields = {name: (code, data) for name, code, data in elements(entry)}
    op = fields["op"][1][4:-1]
    if op == b"n":
        noop_event = _of_noop(fields)
        return () if noop_event is None else (noop_event,)
    if op != b"c" or "fromMigrate" in fields:
        return ()
    o = fields["o"][1]
    name = elements(o)[0][0]
    timestamp, wall = int.from_bytes(fields["ts"][1], "little"), fields["wall"][1]
    if name == ABORT:
        return ()
    if name not in ("applyOps", COMMIT):
        stream_operation = _operation(entry, EntryFields(timestamp, wall), 0)
        return () if stream_operation is None else (stream_operation,)
    if get_field(o, PARTIAL) is not None or get_field(o, PREPARE) is not None:
        return ()
    session = b""
    inner: Sequence[bytes] | None
    if "txnNumber" in fields:
        number, lsid = fields["txnNumber"], fields["lsid"]
        session = b"%ctxnNumber\0%b\x03lsid\0%b" % (number[0], number[1], lsid[1])
        inner = chained_operations(entry, oplog.entry)
    else:
        inner = operations_of(o)
    if inner is None:
        raise history_lost()
    common = EntryFields(timestamp, wall, session)
    candidates = (_operation(operation, common, index) for index, operation in enumerate(inner))
    return [candidate for candidate in candidates if candidate is not None]


def _of_noop(fields: dict[str, Value]) -> StreamOperation | None:
    """Return the shardCollection event of a no-op entry, or None for other no-ops."""
    o2 = fields.get("o2")
    if o2 is None or "ui" not in fields or elements(o2[1])[0][0] != SHARDED:
        return None
    entry = EntryFields(int.from_bytes(fields["ts"][1], "little"), fields["wall"][1])
    return StreamOperation(SHARDED, fields["ns"][1][4:-1].decode(), o2[1], None, fields["ui"][1][5:], entry, 0)


def _operation(raw: bytes, entry: EntryFields, index: int) -> StreamOperation | None:
    """Return one operation, from an entry or from an element of one."""
    change = document_entry(raw)
    if change is not None:
        return _of_document(change, entry, index)
    fields = {name: (code, data) for name, code, data in elements(raw)}
    if "fromMigrate" in fields or fields["op"][1][4:-1] != b"c":
        return None
    return _command(fields["ns"][1][4:-1].decode(), fields, entry, index)


def _of_document(change: DocumentEntry, entry: EntryFields, index: int) -> StreamOperation | None:
    op, namespace, o, o2, uuid, _, _ = change
    kind = _DOCUMENTS[op]
    if op == UPDATE and get_field(o, "$v") is None:
        kind = "replace"
    operation = StreamOperation(kind, _text(namespace), o, o2, uuid, entry, index)
    return _of_view(operation) if operation.collection == SYSTEM_VIEWS else operation


@lru_cache(maxsize=256)
def _text(namespace: bytes) -> str:
    return namespace.decode()


def _of_view(operation: StreamOperation) -> StreamOperation | None:
    """Return the event of a view, whose definition is a document of `system.views`."""
    identity = get_field(operation.o, "_id") or (None if operation.o2 is None else get_field(operation.o2, "_id"))
    if identity is None:
        return None
    operation.kind = _OF_VIEWS["update" if operation.kind == "replace" else operation.kind]
    operation.namespace = identity[1][4:-1].decode()
    operation.db, operation.collection = split_namespace(operation.namespace)
    operation.of_view = True
    return operation


def _command(namespace: str, fields: dict[str, Value], entry: EntryFields, index: int) -> StreamOperation | None:
    db = namespace.partition(".")[0]
    name, _, data = elements(fields["o"][1])[0]
    kind = _COMMANDS.get(name)
    if kind is None:
        return None
    text = data[4:-1].decode() if kind != "dropDatabase" else ""
    changed = db if kind == "dropDatabase" else text if kind == "rename" else f"{db}.{text}"
    o2, ui = fields.get("o2"), fields.get("ui")
    operation = StreamOperation(
        kind,
        changed,
        fields["o"][1],
        None if o2 is None else o2[1],
        None if ui is None else ui[1][5:],
        entry,
        index,
    )
    if kind == "rename":
        target = get_field(operation.o, "to")
        assert target is not None, "a rename without a target"
        operation.target = target[1][4:-1].decode()
    return operation
