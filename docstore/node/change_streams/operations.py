"""The operations that an oplog entry tells change streams of, in order.

An entry is one operation, or holds several: those of a transaction, which take effect with its last entry, and grouped
inserts. What a migration moves is no change, and gives none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from docstore.aggregation.change_stream.errors import history_lost
from docstore.bson import Value, elements, get_field
from docstore.collection.catalog.views import SYSTEM_VIEWS
from docstore.collection.oplog.operations import ABORT, COMMIT, PARTIAL, PREPARE, chained_operations, operations_of
from docstore.namespace import split_namespace
from docstore.node.change_streams.scope import INTERNAL

if TYPE_CHECKING:
    from docstore.collection.oplog.oplog import Oplog
    from docstore.node.change_streams.events import Event

_DOCUMENTS = {b"i": "insert", b"u": "update", b"d": "delete"}
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
_PLAIN = frozenset(("insert", "update", "replace", "delete", "drop", "rename", "dropDatabase"))
"""Those of which a stream tells that has not asked for more."""


class Operation:
    """One operation. `event` is what has been made of it, once it has been.

    `kind` is the type of its event; `db`, `collection` are what it changed, `target` the namespace that a rename gave;
    `index` is its place among the operations of its entry or transaction; `wall`, `session` are encoded fields.
    """

    __slots__ = (
        "collection", "db", "event", "index", "kind", "namespace", "o", "o2", "of_view", "session", "size", "target",
        "timestamp", "uuid", "wall",
    )  # fmt: skip

    def __init__(self, kind: str, namespace: str, fields: dict[str, Value], entry: EntryFields, index: int) -> None:
        self.kind = kind
        self.namespace = namespace
        self.db, self.collection = _names(namespace)
        self.target = ""
        self.of_view = False
        self.o = fields["o"][1]
        o2, ui = fields.get("o2"), fields.get("ui")
        self.o2 = None if o2 is None else o2[1]
        self.uuid = None if ui is None else ui[1][5:]
        self.index = index
        self.timestamp = entry.timestamp
        self.wall = entry.wall
        self.session = entry.session
        self.size = len(self.o)
        self.event: Event | None = None

    @property
    def is_plain(self) -> bool:
        return self.kind in _PLAIN and not self.of_view

    @property
    def is_internal(self) -> bool:
        """Whether only the server itself is concerned."""
        return self.collection.startswith("system.") or self.db in INTERNAL

    @property
    def target_db(self) -> str:
        """The database to which a rename has taken a collection."""
        return self.target.partition(".")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the scopes in which it is."""
        if self.target:
            return self.namespace, self.db, "", self.target, self.target_db
        return self.namespace, self.db, ""


@lru_cache(maxsize=256)
def _names(namespace: str) -> tuple[str, str]:
    return split_namespace(namespace)


class EntryFields:
    """What all operations of an entry have in common."""

    __slots__ = ("session", "timestamp", "wall")

    def __init__(self, fields: dict[str, Value], *, transaction: bool) -> None:
        self.timestamp = int.from_bytes(fields["ts"][1], "little")
        self.wall = b"\x09wallTime\0" + fields["wall"][1]
        self.session = b""
        if transaction:
            number, lsid = fields["txnNumber"], fields["lsid"]
            self.session = b"%ctxnNumber\0%b\x03lsid\0%b" % (number[0], number[1], lsid[1])


def operations_in(entry: bytes, oplog: Oplog) -> Sequence[Operation]:
    """The operations of an entry. Errors: ChangeStreamHistoryLost where those of a transaction have left the log."""
    fields = {name: (code, data) for name, code, data in elements(entry)}
    op = fields["op"][1][4:-1]
    if op == b"n" or "fromMigrate" in fields:
        return ()
    o = fields["o"][1]
    name = elements(o)[0][0] if op == b"c" else ""
    if name == ABORT:
        return ()
    if name not in ("applyOps", COMMIT):
        found = _operation(fields, EntryFields(fields, transaction=False), 0)
        return () if found is None else (found,)
    if get_field(o, PARTIAL) is not None or get_field(o, PREPARE) is not None:
        return ()
    transaction = "txnNumber" in fields
    inner = chained_operations(entry, oplog.entry) if transaction else operations_of(o)
    if inner is None:
        raise history_lost()
    common = EntryFields(fields, transaction=transaction)
    operations = []
    for index, operation in enumerate(inner):
        found = _operation({name: (code, data) for name, code, data in elements(operation)}, common, index)
        if found is not None:
            operations.append(found)
    return operations


def _operation(fields: dict[str, Value], entry: EntryFields, index: int) -> Operation | None:
    op = fields["op"][1][4:-1]
    namespace = fields["ns"][1][4:-1].decode()
    if "fromMigrate" in fields:
        return None
    if op == b"c":
        return _command(namespace, fields, entry, index)
    kind = _DOCUMENTS.get(op)
    if kind is None:
        return None
    o = fields["o"][1]
    if kind == "update" and get_field(o, "$v") is None:
        kind = "replace"
    made = Operation(kind, namespace, fields, entry, index)
    if made.collection == SYSTEM_VIEWS:
        return _of_view(made)
    return made


def _of_view(made: Operation) -> Operation | None:
    """A view is a document of `system.views`, of which the event says nothing."""
    identity = get_field(made.o, "_id") or (None if made.o2 is None else get_field(made.o2, "_id"))
    if identity is None:
        return None
    made.kind = _OF_VIEWS["update" if made.kind == "replace" else made.kind]
    made.namespace = identity[1][4:-1].decode()
    made.db, made.collection = split_namespace(made.namespace)
    made.of_view = True
    return made


def _command(namespace: str, fields: dict[str, Value], entry: EntryFields, index: int) -> Operation | None:
    db = namespace.partition(".")[0]
    name, _, data = elements(fields["o"][1])[0]
    kind = _COMMANDS.get(name)
    if kind is None:
        return None
    if kind == "dropDatabase":
        return Operation(kind, db, fields, entry, index)
    text = data[4:-1].decode()
    made = Operation(kind, text if kind == "rename" else f"{db}.{text}", fields, entry, index)
    if kind == "rename":
        target = get_field(made.o, "to")
        assert target is not None, "a rename without a target"
        made.target = target[1][4:-1].decode()
    return made
