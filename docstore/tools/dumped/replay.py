"""Replay of a dump's log: each entry is executed by commands that any server accepts.

Inserts and updates store the resulting document; missing documents are not removed or updated. Replaying a log over
collections in any state of its period, even twice, leads to the state at its end. Transactions take effect at their
commit.

Updates describe the change (`{$v: 2, diff}`), so the current document is read, changed here and written back: the
paths of update operators could not name every field. Indexes are only noted, and built after all entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bson import DBRef, decode
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo import DeleteOne, ReplaceOne
from pymongo.database import Database
from pymongo.errors import OperationFailure

from docstore.tools.connection import Client
from docstore.tools.dumped.restoration import Indexes
from docstore.tools.dumped.row_log import RowLog
from docstore.tools.terminal import ToolFailed
from docstore.tools.text.extended_json import EXACT

_BATCH = 1000
_INTERNAL = ("config.", "local.")
_NAMESPACE_NOT_FOUND = 26
_NAMESPACE_EXISTS = 48

Operation = Mapping[str, Any]


class Replay:
    """Entries on their way into a server."""

    def __init__(self, client: Client, indexes: Indexes, *, unvalidated: bool) -> None:
        """`unvalidated`: validators are not asked."""
        self._client = client
        self._indexes = indexes
        self._rows = RowLog(client)
        self._bypass = unvalidated or None
        self.stopped = False
        """True if there were entries at the limit or later."""
        self._pending: list[DeleteOne | ReplaceOne[dict[str, Any]]] = []
        self._place = ""
        self._transactions: dict[tuple[bytes, int], list[Operation]] = {}

    def run(self, entries: Iterable[RawBSONDocument], limit: Timestamp | None) -> int:
        """Replay the entries before `limit`; gives how many. Errors: ToolFailed, PyMongoError."""
        count = 0
        for document in entries:
            entry = decode(document.raw, EXACT)
            if limit is not None and entry["ts"] >= limit:
                self.stopped = True
                break
            self._apply(entry)
            count += 1
        self._flush()
        return count

    def _apply(self, entry: Operation) -> None:
        if entry["op"] == "n":
            return
        if entry["op"] == "c":
            self._command(entry)
        elif not entry["ns"].startswith(_INTERNAL) and entry["ns"] != "":
            self._document(entry)

    def _document(self, entry: Operation) -> None:
        database, _, collection = entry["ns"].partition(".")
        if collection == "system.views":
            self._view(self._database(database), entry)
        elif entry["op"] == "i":
            self._enqueue(entry["ns"], ReplaceOne({"_id": entry["o"]["_id"]}, entry["o"], upsert=True))
        elif entry["op"] == "d":
            self._enqueue(entry["ns"], DeleteOne({"_id": entry["o"]["_id"]}))
        elif entry["op"] == "u":
            self._update(entry)
        elif entry["op"] == "m":
            self._rows.apply(entry["ns"], entry["o"])
        else:
            raise ToolFailed(f"the oplog has an entry of an unknown kind: {entry['op']}")

    def _update(self, entry: Operation) -> None:
        identity, change = {"_id": entry["o2"]["_id"]}, entry["o"]
        if "$v" not in change:
            self._enqueue(entry["ns"], ReplaceOne(identity, change))
            return
        if "diff" not in change:
            raise ToolFailed("the oplog is that of a server before 5.0: its updates are not replayed")
        self._flush()
        database, _, collection = entry["ns"].partition(".")
        target = self._database(database).get_collection(collection)
        document = target.find_one(identity)
        if document is not None:
            changed = _changed(document, change["diff"])
            target.replace_one(identity, changed, bypass_document_validation=self._bypass)

    def _view(self, database: Database[dict[str, Any]], entry: Operation) -> None:
        self._flush()
        if entry["op"] == "u":
            raise ToolFailed("a view was changed while it was dumped: that is not replayed")
        definition = dict(entry["o"])
        name = definition.pop("_id").partition(".")[2]
        if entry["op"] == "d":
            database.drop_collection(name)
        else:
            self._tolerant(database, {"create": name, **definition})

    def _command(self, entry: Operation) -> None:
        if entry["ns"].startswith(_INTERNAL):
            return
        command = entry["o"]
        name = next(iter(command))
        if name == "applyOps":
            self._operations(entry, command)
        elif name in ("commitTransaction", "abortTransaction"):
            self._decide(entry, is_committed=name == "commitTransaction")
        else:
            self._flush()
            self._define(entry["ns"].partition(".")[0], name, dict(command))

    def _operations(self, entry: Operation, command: Operation) -> None:
        """Operations that were grouped, all of a transaction or some of it."""
        if "txnNumber" not in entry:
            for operation in command["applyOps"]:
                self._apply(operation)
            return
        key = _session(entry)
        operations = self._transactions.setdefault(key, [])
        operations += command["applyOps"]
        if command.get("partialTxn") or command.get("prepare"):
            return
        del self._transactions[key]
        if command.get("count", len(operations)) != len(operations):
            raise ToolFailed("the dump began in the middle of a transaction: its beginning is not in the oplog")
        for operation in operations:
            self._apply(operation)

    def _decide(self, entry: Operation, *, is_committed: bool) -> None:
        operations = self._transactions.pop(_session(entry), None)
        if is_committed and operations is None:
            raise ToolFailed("the dump began in the middle of a transaction: its beginning is not in the oplog")
        for operation in operations if is_committed and operations is not None else ():
            self._apply(operation)

    def _define(self, database: str, name: str, command: dict[str, Any]) -> None:
        """Run a command that changes definitions."""
        target = self._database(database)
        if name == "create":
            command.pop("idIndex", None)
            self._tolerant(target, command)
        elif name == "drop":
            self._indexes.pop(f"{database}.{command['drop']}", None)
            target.drop_collection(command["drop"])
        elif name == "dropDatabase":
            for namespace in [key for key in self._indexes if key.startswith(database + ".")]:
                del self._indexes[namespace]
            self._client.drop_database(database)
        elif name == "renameCollection":
            self._rename(command)
        elif name == "truncate":
            self._rows.truncate(f"{database}.{command['truncate']}")
        elif name == "collMod" and "truncatedAt" in command:
            return  # The truncation, which comes first, notes its time anew.
        elif name in ("createIndexes", "commitIndexBuild", "dropIndexes", "deleteIndexes", "collMod"):
            self._define_indexes(target, name, command)
        elif name not in ("startIndexBuild", "abortIndexBuild"):
            raise ToolFailed(f"the oplog has a command that is not replayed: {name}")

    def _rename(self, command: dict[str, Any]) -> None:
        source, to = command["renameCollection"], command["to"]
        if source in self._indexes:
            self._indexes[to] = self._indexes.pop(source)
        renaming = {"renameCollection": source, "to": to, "dropTarget": bool(command.get("dropTarget"))}
        self._tolerant(self._database("admin"), renaming, _NAMESPACE_NOT_FOUND)

    def _define_indexes(self, database: Database[dict[str, Any]], name: str, command: dict[str, Any]) -> None:
        collection = command.pop(name)
        noted = self._indexes.setdefault(f"{database.name}.{collection}", {})
        if name == "createIndexes":
            noted[command["name"]] = command
        elif name == "commitIndexBuild":
            noted.update((index["name"], dict(index)) for index in command["indexes"])
        elif name == "collMod" and "index" in command:
            change = dict(command["index"])
            noted.get(change.pop("name"), {}).update(change)
        elif name == "collMod":
            self._tolerant(database, {"collMod": collection, **command})
        elif command["index"] == "*":
            noted.clear()
        else:
            noted.pop(command["index"], None)

    def _tolerant(self, database: Database[dict[str, Any]], command: dict[str, Any], *codes: int) -> None:
        """Run a command; ignore errors that say that it was done before."""
        try:
            database.command(command)
        except OperationFailure as error:
            if error.code not in (codes or (_NAMESPACE_NOT_FOUND, _NAMESPACE_EXISTS)):
                raise

    def _enqueue(self, namespace: str, change: DeleteOne | ReplaceOne[dict[str, Any]]) -> None:
        if namespace != self._place or len(self._pending) == _BATCH:
            self._flush()
            self._place = namespace
        self._pending.append(change)

    def _flush(self) -> None:
        if self._pending:
            database, _, collection = self._place.partition(".")
            target = self._database(database).get_collection(collection)
            target.bulk_write(self._pending, bypass_document_validation=self._bypass)
            self._pending = []

    def _database(self, name: str) -> Database[dict[str, Any]]:
        return self._client.get_database(name).with_options(EXACT)


def _session(entry: Operation) -> tuple[bytes, int]:
    return bytes(entry["lsid"]["id"]), int(entry["txnNumber"])


def _changed(value: Any, diff: Operation) -> Any:
    """Return a document, or an array, after applying a diff."""
    if diff.get("a"):
        return _changed_array(list(value) if isinstance(value, list) else [], diff)
    document = value.as_doc() if isinstance(value, DBRef) else value
    changed = dict(document) if isinstance(document, Mapping) else {}
    for name in diff.get("d", {}):
        changed.pop(name, None)
    for name, new in diff.get("u", {}).items():
        changed[name] = new
    for name, new in diff.get("i", {}).items():
        changed.pop(name, None)
        changed[name] = new
    for name, inner in diff.items():
        if name.startswith("s"):
            changed[name[1:]] = _changed(changed.get(name[1:]), inner)
    return changed


def _changed_array(elements: list[Any], diff: Operation) -> list[Any]:
    if "l" in diff:
        del elements[diff["l"] :]
        elements += [None] * (diff["l"] - len(elements))
    for name, change in diff.items():
        if name[0] in "us" and name[1:].isdecimal():
            position = int(name[1:])
            elements += [None] * (position + 1 - len(elements))
            elements[position] = change if name[0] == "u" else _changed(elements[position], change)
    return elements
