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
from docstore.kernel.compute.change_events import DELETE, INSERT, UPDATE, DocumentEntry, document_entry
from docstore.namespace import split_namespace
from docstore.node.change_streams.scope import INTERNAL

if TYPE_CHECKING:
    from docstore.collection.oplog.oplog import Oplog
    from docstore.node.change_streams.events import Event, Shown

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
SHARDED = "shardCollection"
_OF_VIEWS = {"insert": "create", "update": "modify", "delete": "drop"}
_OF_DOCUMENTS = frozenset(("insert", "update", "replace", "delete"))
_PLAIN = frozenset(("insert", "update", "replace", "delete", "drop", "rename", "dropDatabase"))
"""Those of which a stream tells that has not asked for more."""


class Operation:
    """One operation. `event` is what has been made of it, once it has been, and `shown` its document without images.

    `kind` is the type of its event; `db`, `collection` are what it changed, `target` the namespace that a rename gave;
    `index` is its place among the operations of its entry or transaction; `wall`, `session` are encoded fields.
    """

    __slots__ = (
        "collection", "db", "event", "index", "kind", "namespace", "o", "o2", "of_view", "session", "shown", "target",
        "timestamp", "uuid", "wall",
    )  # fmt: skip

    def __init__(
        self, kind: str, namespace: str, o: bytes, o2: bytes | None, uuid: bytes | None, entry: EntryFields, index: int
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.db, self.collection = _names(namespace)
        self.target = ""
        self.of_view = False
        self.o = o
        self.o2 = o2
        self.uuid = uuid
        self.index = index
        self.timestamp = entry.timestamp
        self.wall = entry.wall
        self.session = entry.session
        self.event: Event | None = None
        self.shown: Shown | None = None

    @property
    def of_document(self) -> bool:
        """Whether a document was inserted, changed or deleted, and no view."""
        return self.kind in _OF_DOCUMENTS and not self.of_view

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

    def __init__(self, timestamp: int, wall: bytes, session: bytes = b"") -> None:
        self.timestamp = timestamp
        self.wall = b"\x09wallTime\0" + wall
        self.session = session


def operations_in(entry: bytes, oplog: Oplog) -> Sequence[Operation]:
    """The operations of an entry. Errors: ChangeStreamHistoryLost where those of a transaction have left the log."""
    told = document_entry(entry)
    if told is not None:
        found = _of_document(told, EntryFields(told[5], told[6]), 0)
        return () if found is None else (found,)
    fields = {name: (code, data) for name, code, data in elements(entry)}
    op = fields["op"][1][4:-1]
    if op == b"n":
        told_of = _of_noop(fields)
        return () if told_of is None else (told_of,)
    if op != b"c" or "fromMigrate" in fields:
        return ()
    o = fields["o"][1]
    name = elements(o)[0][0]
    timestamp, wall = int.from_bytes(fields["ts"][1], "little"), fields["wall"][1]
    if name == ABORT:
        return ()
    if name not in ("applyOps", COMMIT):
        found = _operation(entry, EntryFields(timestamp, wall), 0)
        return () if found is None else (found,)
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
    found_of = (_operation(operation, common, index) for index, operation in enumerate(inner))
    return [each for each in found_of if each is not None]


def _of_noop(fields: dict[str, Value]) -> Operation | None:
    """That a collection has been sharded changes nothing here."""
    told = fields.get("o2")
    if told is None or "ui" not in fields or elements(told[1])[0][0] != SHARDED:
        return None
    entry = EntryFields(int.from_bytes(fields["ts"][1], "little"), fields["wall"][1])
    return Operation(SHARDED, fields["ns"][1][4:-1].decode(), told[1], None, fields["ui"][1][5:], entry, 0)


def _operation(raw: bytes, entry: EntryFields, index: int) -> Operation | None:
    """One operation, be it an entry or one of those in it."""
    told = document_entry(raw)
    if told is not None:
        return _of_document(told, entry, index)
    fields = {name: (code, data) for name, code, data in elements(raw)}
    if "fromMigrate" in fields or fields["op"][1][4:-1] != b"c":
        return None
    return _command(fields["ns"][1][4:-1].decode(), fields, entry, index)


def _of_document(told: DocumentEntry, entry: EntryFields, index: int) -> Operation | None:
    op, namespace, o, o2, uuid, _, _ = told
    kind = _DOCUMENTS[op]
    if op == UPDATE and get_field(o, "$v") is None:
        kind = "replace"
    made = Operation(kind, _text(namespace), o, o2, uuid, entry, index)
    return _of_view(made) if made.collection == SYSTEM_VIEWS else made


@lru_cache(maxsize=256)
def _text(namespace: bytes) -> str:
    return namespace.decode()


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
    text = data[4:-1].decode() if kind != "dropDatabase" else ""
    changed = db if kind == "dropDatabase" else text if kind == "rename" else f"{db}.{text}"
    o2, ui = fields.get("o2"), fields.get("ui")
    made = Operation(
        kind,
        changed,
        fields["o"][1],
        None if o2 is None else o2[1],
        None if ui is None else ui[1][5:],
        entry,
        index,
    )
    if kind == "rename":
        target = get_field(made.o, "to")
        assert target is not None, "a rename without a target"
        made.target = target[1][4:-1].decode()
    return made
