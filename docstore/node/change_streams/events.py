"""Event documents of change streams, with MongoDB 6.0's fields in its order.

An event is built once for all streams. The parts that depend on a stream's options are added when it is returned:
`collectionUUID`, `operationDescription`, `stateBeforeChange` and `disambiguatedPaths` for expanded events, and images.
"""

from __future__ import annotations

from functools import lru_cache

from docstore.aggregation.change_stream.token import EventToken, ddl_identifier
from docstore.bson import document_from, elements, from_python, get_field
from docstore.bson.build import enclosed
from docstore.bson.walk import ARRAY, BINARY, OBJECT, Value
from docstore.kernel.compute.change_events import event_token
from docstore.node.change_streams.operation import SHARDED, EntryFields, Operation
from docstore.node.change_streams.update_description import update_description

_LENGTH = 4
_UUID_HEAD = b"\x05collectionUUID\0\x10\0\0\0\x04"
_TYPES = {
    kind: b"\x02operationType\0%b%b\0\x11clusterTime\0" % ((len(kind) + 1).to_bytes(4, "little"), kind.encode())
    for kind in ("insert", "update", "replace", "delete")
}
"""The event's bytes between its token and its time."""
_MADE = frozenset(("create", "createIndexes", "dropIndexes", "modify", SHARDED))
"""Types whose events show an `operationDescription`."""


class Event:
    """The parts of an event. `full`: the document of an insert or a replacement; `document_key`: raw `{_id, ...}`.

    Only events of documents have these two.
    """

    __slots__ = ("_assembled", "_behind", "_operation", "document_key", "full", "token")

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.document_key: bytes | None = None
        self.full: bytes | None = None
        self._assembled: dict[bool, bytes] = {}
        identifier: Value | None = None
        details = b""
        kind = operation.kind
        if operation.of_view or kind in _MADE:
            description = None if kind == "drop" else _description(operation)
            if description is not None:
                identifier = ddl_identifier(kind, description)
                details = b"\x03operationDescription\0" + description + _state_before(operation)
        elif kind == "rename":
            details = b"\x03operationDescription\0" + _rename_description(operation)
        elif kind not in ("drop", "dropDatabase"):
            self.document_key = _document_key(operation)
            identifier = OBJECT, self.document_key
            details = b"\x03documentKey\0" + self.document_key
            if kind == "update":
                details += b"\x03updateDescription\0" + update_description(operation.o)
            else:
                self.full = operation.o if kind != "delete" else None
        self._behind = details
        self.token = EventToken(operation.timestamp, operation.index, operation.uuid, identifier)

    def document(self, *, expanded: bool) -> bytes:
        """Return the event for a stream without images."""
        document = self._assembled.get(expanded)
        if document is None:
            full = b"" if self.full is None else b"\x03fullDocument\0" + self.full
            document = self._assembled[expanded] = self._document(expanded, full, b"")
        return document

    def with_images(self, *, expanded: bool, full: bytes | None, asked_full: bool, before: bytes | None) -> bytes:
        """Return the event with the encoded field `fullDocumentBeforeChange` at its end.

        If `asked_full`, an update's event has the current document `full`, or null if there is none.
        """
        image = b""
        if self.full is not None:
            image = b"\x03fullDocument\0" + self.full
        elif asked_full:
            image = b"\x0afullDocument\0" if full is None else b"\x03fullDocument\0" + full
        return self._document(expanded, image, b"" if before is None else before)

    def invalidation(self) -> bytes:
        """Return the invalidate event that follows this one and ends the stream."""
        operation = self._operation
        return enclosed(
            b"".join(
                (
                    b"\x03_id\0", self.token.invalidation_raw, b"\x02operationType\0\x0b\0\0\0invalidate\0",
                    b"\x11clusterTime\0", operation.timestamp.to_bytes(8, "little"), operation.wall,
                )
            )
        )  # fmt: skip

    def _document(self, expanded: bool, full: bytes, before: bytes) -> bytes:
        operation = self._operation
        kind = operation.kind.encode() + b"\0"
        name = _namespace_document(operation.db, operation.collection)
        front = operation.session
        details = self._behind
        if operation.kind == "rename":
            target_db, _, target = operation.target.partition(".")
            front += b"\x03to\0" + document_from(_namespace_fields(target_db, target))
            details = self._behind if expanded else b""
        elif expanded and operation.kind == "update" and self.document_key is not None:
            described = update_description(operation.o, expanded=True)
            details = b"\x03documentKey\0" + self.document_key + b"\x03updateDescription\0" + described
        uuid = b""
        if expanded and operation.uuid is not None and not operation.of_view:
            uuid = _UUID_HEAD + operation.uuid
        return enclosed(
            b"".join(
                (
                    front, b"\x03_id\0", self.token.raw,
                    b"\x02operationType\0", len(kind).to_bytes(_LENGTH, "little"), kind,
                    b"\x11clusterTime\0", operation.timestamp.to_bytes(8, "little"),
                    uuid, operation.wall, full, b"\x03ns\0", name, details, before,
                )
            )
        )  # fmt: skip


Shown = tuple[bytes, bytes, int]
"""(An event, its raw token, its packed timestamp.)"""


class StreamOperation(Operation):
    """An operation with its cached `event`, and `plain_event`, its document for streams without images."""

    __slots__ = ("event", "plain_event")

    def __init__(
        self, kind: str, namespace: str, o: bytes, o2: bytes | None, uuid: bytes | None, entry: EntryFields, index: int
    ) -> None:
        super().__init__(kind, namespace, o, o2, uuid, entry, index)
        self.event: Event | None = None
        self.plain_event: Shown | None = None


def plain_event(operation: StreamOperation) -> Shown:
    """Return the event of a document's change for streams without images and expanded events; cached."""
    event = operation.plain_event
    if event is None:
        event = operation.plain_event = _build_plain_event(operation)
    return event


def _build_plain_event(operation: StreamOperation) -> Shown:
    key = _document_key(operation)
    uuid, timestamp = operation.uuid, operation.timestamp
    token = None if uuid is None else event_token(timestamp, operation.index, uuid, key)
    if token is None:
        event = event_of(operation)
        return event.document(expanded=False), event.token.raw, timestamp
    kind = operation.kind
    details = full = b""
    if kind == "update":
        details = b"\x03updateDescription\0" + update_description(operation.o)
    elif kind != "delete":
        full = b"\x03fullDocument\0" + operation.o
    document = enclosed(
        b"".join(
            (
                operation.session, b"\x03_id\0", token, _TYPES[kind], timestamp.to_bytes(8, "little"), operation.wall,
                full, b"\x03ns\0", _namespace_document(operation.db, operation.collection), b"\x03documentKey\0", key,
                details,
            )
        )
    )  # fmt: skip
    return document, token, timestamp


def event_of(operation: StreamOperation) -> Event:
    """Return the event of the operation; cached."""
    event = operation.event
    if event is None:
        event = operation.event = Event(operation)
    return event


@lru_cache(maxsize=256)
def _namespace_document(db: str, collection: str) -> bytes:
    return document_from(_namespace_fields(db, collection))


def _namespace_fields(db: str, collection: str) -> list[tuple[str, int, bytes]]:
    fields = [("db", *from_python(db))]
    return [*fields, ("coll", *from_python(collection))] if collection else fields


def _document_key(operation: Operation) -> bytes:
    if operation.kind == "delete":
        return operation.o
    assert operation.o2 is not None, "an oplog entry of a document without o2"
    return operation.o2


def _description(operation: Operation) -> bytes:
    """Return `operationDescription` of a change of the catalog."""
    fields = elements(operation.o)
    if operation.of_view:
        return document_from([field for field in fields if field[0] != "_id"])
    if operation.kind == "createIndexes":
        return _indexes(document_from(fields[1:]))
    if operation.kind == "dropIndexes":
        return _indexes(document_from(fields[1:]) if operation.o2 is None else operation.o2)
    return document_from(fields[1:])


def _indexes(spec: bytes) -> bytes:
    return document_from([("indexes", ARRAY, document_from([("0", OBJECT, spec)]))])


def _rename_description(operation: Operation) -> bytes:
    target_db, _, target = operation.target.partition(".")
    described: list[tuple[str, int, bytes]] = [("to", OBJECT, document_from(_namespace_fields(target_db, target)))]
    dropped = get_field(operation.o, "dropTarget")
    if dropped is not None and dropped[0] == BINARY:
        described.append(("dropTarget", *dropped))
    return document_from(described)


def _state_before(operation: Operation) -> bytes:
    """Return the field `stateBeforeChange` of a `collMod`'s event."""
    if operation.kind != "modify" or operation.o2 is None or operation.of_view:
        return b""
    before = [(name.removesuffix("_old"), code, data) for name, code, data in elements(operation.o2)]
    return b"\x03stateBeforeChange\0" + document_from(before)
