"""Legacy opcodes of clients of 2012: old operations as commands, and command replies as OP_REPLY.

Every old operation becomes one ordinary command for the dispatcher. The outcome of a write is kept on the connection
for `getLastError`. To wait for a write concern, that sends a write that matches nothing: such a write waits until the
newest write satisfies the concern. `$cmd` carries commands; `system.indexes`, `system.namespaces` and `$cmd.sys.*` can
be read (and indexes created) as in old servers.

- A write has no reply; a query and a getMore have exactly one. A failed query has `$err`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bson
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import (
    append_fields,
    array_documents,
    document_from,
    document_to_python,
    elements,
    get_field,
    get_path,
)
from docstore.bson.walk import ARRAY, OBJECT, STRING
from docstore.commands.client_connection import ClientConnection
from docstore.commands.dispatch import Dispatcher, Outcome, Pending
from docstore.commands.legacy.find import READ_SECONDARIES, SECONDARY_OK, find_command
from docstore.commands.legacy.last_write import NOTHING_WRITTEN, outcome_of
from docstore.commands.values import NUMBERS, integer_of, text_of, truth_of
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.wire.message import Message
from docstore.wire.query import (
    AWAIT_CAPABLE,
    CURSOR_NOT_FOUND,
    OP_DELETE,
    OP_GET_MORE,
    OP_INSERT,
    OP_KILL_CURSORS,
    OP_UPDATE,
    QUERY_FAILURE,
    Operation,
    reply_body,
)

_LAST_ERROR = frozenset(("getlasterror", "getLastError"))
_FORGET = frozenset(("reseterror", "resetError"))
_SYSTEM_COMMANDS = {
    "$cmd.sys.inprog": "currentOp", "$cmd.sys.killop": "killOp", "$cmd.sys.unlock": "fsyncUnlock",
}  # fmt: skip
Convert = Callable[[bytes], bytes | None]


def serve(dispatcher: Dispatcher, request: Message, operation: Operation, peer: ClientConnection) -> Outcome | Pending:
    """Answer an old operation, or begin to; the outcome is the body of an OP_REPLY, None for a write."""
    opcode = operation.opcode
    if opcode == OP_KILL_CURSORS:
        _kill_cursors(dispatcher, operation, peer)
        return None
    try:
        if opcode in (OP_INSERT, OP_UPDATE, OP_DELETE):
            return _write(dispatcher, request, operation, peer)
        if opcode == OP_GET_MORE:
            return _ask(dispatcher, request, peer, _get_more(operation), _batch("nextBatch", operation))
        return _query(dispatcher, request, operation, peer)
    except CommandError as error:
        return _failure(bson.encode(error.reply()))


def _ask(dispatcher: Dispatcher, request: Message, peer: ClientConnection, body: bytes, convert: Convert,
         sequences: dict[str, list[bytes]] | None = None) -> Outcome | Pending:  # fmt: skip
    """Run a command and convert its reply."""
    outcome = dispatcher.handle(request._replace(body=body, sequences=sequences or {}, flags=0), peer)
    if isinstance(outcome, Pending):
        outcome.convert = convert
        return outcome
    assert isinstance(outcome, bytes), "no flag asks for anything else"
    return convert(outcome)


def _kill_cursors(dispatcher: Dispatcher, operation: Operation, peer: ClientConnection) -> None:
    """Kill cursors; with access control, only those of the client's own user."""
    services = dispatcher.services
    owner = None if peer.identity is None or not services.access.enabled else peer.identity.user.name
    for cursor_id in operation.ids:
        if not services.access.enabled or (owner is not None and services.cursors.owner_of(cursor_id) == owner):
            services.cursors.kill(cursor_id)


def _write(dispatcher: Dispatcher, request: Message, operation: Operation, peer: ClientConnection) -> Outcome | Pending:
    db, collection = split_namespace(operation.namespace)
    kind = {OP_INSERT: "insert", OP_UPDATE: "update", OP_DELETE: "delete"}[operation.opcode]

    def remember(reply: bytes) -> None:
        peer.last_write = outcome_of(operation.namespace, kind, reply)

    if collection == "system.indexes" and kind == "insert":
        return _ask(dispatcher, request, peer, _create_indexes(db, operation.documents), remember)
    name, statements = {
        "insert": ("documents", list(operation.documents)),
        "update": ("updates", [_update_statement(operation)] if kind == "update" else []),
        "delete": ("deletes", [_delete_statement(operation)] if kind == "delete" else []),
    }[kind]
    # Bit 0 of an OP_INSERT: continue after an error.
    ordered = not (kind == "insert" and operation.flags & 1)
    body = bson.encode({kind: collection, "ordered": ordered, "$db": db})
    return _ask(dispatcher, request, peer, body, remember, {name: statements})


def _update_statement(operation: Operation) -> bytes:
    selector, update = operation.documents
    return document_from(
        (
            ("q", OBJECT, selector), ("u", OBJECT, update), ("upsert", 8, bytes((operation.flags & 1,))),
            ("multi", 8, bytes((operation.flags >> 1 & 1,))),
        )
    )  # fmt: skip


def _delete_statement(operation: Operation) -> bytes:
    limit = (operation.flags & 1).to_bytes(4, "little")
    return document_from((("q", OBJECT, operation.documents[0]), ("limit", 16, limit)))


def _create_indexes(db: str, documents: tuple[bytes, ...]) -> bytes:
    """Return a createIndexes command for documents inserted into `system.indexes`. Errors: BadValue."""
    collections = set()
    specifications = []
    for document in documents:
        namespace = get_field(document, "ns")
        if namespace is None or namespace[0] != STRING:
            raise CommandError(Code.BadValue, "an index description needs the namespace in 'ns'")
        collections.add(split_namespace(text_of(namespace[1]))[1])
        specifications.append(
            document_from(element for element in elements(document) if element[0] not in ("ns", "_id"))
        )
    if len(collections) != 1:
        raise CommandError(Code.BadValue, "one insert describes indexes of one collection")
    body = bson.encode({"createIndexes": collections.pop()})
    indexes = bson.encode({"indexes": [RawBSONDocument(specification) for specification in specifications], "$db": db})
    return append_fields(body, indexes[4:-1])


def _query(dispatcher: Dispatcher, request: Message, operation: Operation, peer: ClientConnection) -> Outcome | Pending:
    db, collection = split_namespace(operation.namespace)
    if collection == "$cmd":
        return _command(dispatcher, request, operation, peer, db)
    document = operation.documents[0]
    if collection in _SYSTEM_COMMANDS:
        body = document_from(((_SYSTEM_COMMANDS[collection], 16, b"\1\0\0\0"), *elements(document)))
        return _ask(dispatcher, request, peer, _addressed(body, "admin", operation), _single)
    if collection == "system.namespaces":
        body = bson.encode({"listCollections": 1, "cursor": {"batchSize": 0x7FFFFFFF}})
        return _ask(dispatcher, request, peer, _addressed(body, db, operation), lambda reply: _namespaces(reply, db))
    if collection == "system.indexes":
        namespace = get_field(document, "ns")
        if namespace is None or namespace[0] != STRING:
            raise CommandError(Code.BadValue, "system.indexes is read by collection: {ns: 'database.collection'}")
        full = text_of(namespace[1])
        body = bson.encode({"listIndexes": split_namespace(full)[1], "cursor": {"batchSize": 0x7FFFFFFF}})
        return _ask(dispatcher, request, peer, _addressed(body, db, operation), lambda reply: _indexes(reply, full))
    body, explained = find_command(operation, collection)
    return _ask(
        dispatcher, request, peer, _addressed(body, db, operation),
        _single if explained else _batch("firstBatch", operation),
    )  # fmt: skip


def _command(
    dispatcher: Dispatcher, request: Message, operation: Operation, peer: ClientConnection, db: str
) -> Outcome | Pending:
    document = operation.documents[0]
    preference = None
    wrapped = get_field(document, "$query") or get_field(document, "query")
    fields = elements(document)
    if wrapped is not None and wrapped[0] == OBJECT and fields[0][0] in ("$query", "query"):
        preference = get_field(document, "$readPreference")
        document = wrapped[1]
        fields = elements(document)
    name = fields[0][0] if fields else ""
    if name in _LAST_ERROR:
        return _last_error(dispatcher, request, peer, document)
    if name in _FORGET:
        peer.last_write = NOTHING_WRITTEN
        return _single(bson.encode({"ok": 1.0}))
    if preference is not None and get_field(document, "$readPreference") is None:
        document = append_fields(document, document_from((("$readPreference", *preference),))[4:-1])
    return _ask(dispatcher, request, peer, _addressed(document, db, operation), _single)


def _addressed(body: bytes, db: str, operation: Operation) -> bytes:
    """Return the command with `$db`, and with the read preference of the operation's flags."""
    tail = bson.encode({"$db": db})[4:-1] if get_field(body, "$db") is None else b""
    if operation.flags & SECONDARY_OK and get_field(body, "$readPreference") is None:
        tail += READ_SECONDARIES
    return append_fields(body, tail)


def _last_error(dispatcher: Dispatcher, request: Message, peer: ClientConnection, document: bytes) -> Outcome | Pending:
    """Answer getLastError: the outcome of the last write, once it satisfies the write concern."""
    options = {name: (code, data) for name, code, data in elements(document)}
    last = peer.last_write
    concern: dict[str, Any] = {}
    if "w" in options:
        code, data = options["w"]
        concern["w"] = text_of(data) if code == STRING else integer_of(code, data) if code in NUMBERS else 1
    for name, option in (("j", "j"), ("fsync", "j")):
        if name in options and options[name][0] in (8, *NUMBERS) and truth_of(*options[name]):
            concern[option] = True
    if "wtimeout" in options and options["wtimeout"][0] in NUMBERS:
        concern["wtimeout"] = integer_of(*options["wtimeout"])

    def answer(reply: bytes) -> bytes:
        fields = {"connectionId": peer.id, **last.fields} | _waited(reply)
        return _single(bson.encode({**fields, "ok": 1.0}))

    if (
        not last.namespace
        or last.fields["err"] is not None
        or not (concern.get("j") or concern.get("w", 1) not in (0, 1))
    ):
        return answer(b"\5\0\0\0\0")
    db, collection = split_namespace(last.namespace)
    nothing = bson.encode({"q": {"$alwaysFalse": 1}, "limit": 0})
    body = bson.encode({"delete": collection, "writeConcern": {"w": 1, **concern}, "$db": db})
    return _ask(dispatcher, request, peer, body, answer, {"deletes": [nothing]})


def _waited(reply: bytes) -> dict[str, Any]:
    """Return the fields of getLastError that a wait adds."""
    body = document_to_python(reply)
    error = body.get("writeConcernError") or (body if body.get("ok") == 0 else None)
    if error is None:
        return {}
    timed_out = error["code"] == Code.WriteConcernFailed
    extra = {"wtimeout": True} if timed_out else {}
    return {"err": "timeout" if timed_out else error["errmsg"], "code": error["code"], **extra}


def _get_more(operation: Operation) -> bytes:
    db, collection = split_namespace(operation.namespace)
    body: dict[str, Any] = {"getMore": Int64(operation.ids[0]), "collection": collection, "$db": db}
    if operation.number:
        body["batchSize"] = abs(operation.number)
    return bson.encode(body)


def _single(reply: bytes) -> bytes:
    return reply_body([reply])


def _failure(reply: bytes) -> bytes:
    """Return the reply to a failed query: `$err` and the fields of the command's error."""
    text, code = get_field(reply, "errmsg"), get_field(reply, "code")
    number = 0 if code is None else integer_of(*code)
    if number == Code.CursorNotFound:
        return reply_body([], flags=CURSOR_NOT_FOUND)
    message = "" if text is None else text_of(text[1])
    return reply_body([bson.encode({"$err": message, "code": number})], flags=QUERY_FAILURE)


def _batch(name: str, operation: Operation) -> Convert:
    """Return a converter from a cursor's batch to the documents of an OP_REPLY."""

    def convert(reply: bytes) -> bytes:
        cursor_id, batch = get_path(reply, "cursor.id"), get_path(reply, f"cursor.{name}")
        if cursor_id is None or batch is None or batch[0] != ARRAY:
            return _failure(reply)
        return reply_body(array_documents(batch[1]), cursor_id=integer_of(*cursor_id), flags=AWAIT_CAPABLE)

    return convert


def _listed(reply: bytes) -> list[bytes] | None:
    batch = get_path(reply, "cursor.firstBatch")
    return None if batch is None else array_documents(batch[1])


def _namespaces(reply: bytes, db: str) -> bytes:
    documents = _listed(reply)
    if documents is None:
        return _failure(reply)
    names = [get_field(document, "name") for document in documents]
    return reply_body([bson.encode({"name": f"{db}.{text_of(name[1])}"}) for name in names if name is not None])


def _indexes(reply: bytes, namespace: str) -> bytes:
    documents = _listed(reply)
    if documents is None:
        code = get_field(reply, "code")
        missing = code is not None and integer_of(*code) == Code.NamespaceNotFound
        return reply_body([]) if missing else _failure(reply)
    return reply_body([append_fields(document, bson.encode({"ns": namespace})[4:-1]) for document in documents])
