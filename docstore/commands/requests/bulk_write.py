"""bulkWrite: its operations as statements of insert, update and delete commands, and its reply.

A run is a maximal sequence of operations of one kind on one collection; it is executed like one such command.
`Run.statements` are in that command's form, so only this module knows bulkWrite's field names.

- Each operation is a statement of exactly one run; runs are in the order of the operations.
- The counts of a reply include operations that it does not list.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.bson import (
    Value,
    append_fields,
    array_from,
    document_from,
    elements,
    enclosed,
    encoded_fields,
    from_python,
)
from docstore.bson.allowance import spend
from docstore.bson.walk import DOUBLE, INT32
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.limits import MAX_WRITE_BATCH, batch_refused
from docstore.commands.sessions.transactions import check_database
from docstore.commands.specs.options import COLLATION
from docstore.errors import Code, CommandError
from docstore.kernel.write.statements import bulk_operation
from docstore.namespace import check_collection_name, check_database_name, split_namespace

PACE = 256
"""Operations parsed between two yields."""
_PER_NAMESPACE = 256
"""Work units charged for a namespace."""
NAMESPACE = "admin.$cmd.bulkWrite"
"""The namespace of a reply's cursor."""

_INT = struct.Struct("<i")
_DONE = struct.Struct("<4sd5si3si")
_NOT_OK = ("ok", DOUBLE, bytes(8))
_LIMIT = {True: ("limit", INT32, _INT.pack(0)), False: ("limit", INT32, _INT.pack(1))}
_MULTI = Parameter("multi", Type.BOOL, default=False)
_FILTER = Parameter("filter", Type.OBJECT, required=True)
_HINT = Parameter("hint", Type.HINT)
_PLACE = {name: Parameter(name, Type.INT, required=True) for name in ("insert", "update", "delete")}
_FIELDS = {
    "insert": declared(_PLACE["insert"], Parameter("document", Type.OBJECT, required=True)),
    "update": declared(
        _PLACE["update"],
        _FILTER,
        Parameter("updateMods", Type.ANY, required=True),
        _MULTI,
        Parameter("upsert", Type.BOOL, default=False),
        Parameter("sort", Type.OBJECT),
        _HINT,
        Parameter("arrayFilters", Type.DOCUMENTS),
        Parameter("constants", Type.OBJECT),
        COLLATION,
    ),
    "delete": declared(_PLACE["delete"], _FILTER, _MULTI, _HINT, COLLATION),
}
_IN_STATEMENTS = {"filter": "q", "updateMods": "u", "constants": "c"}
_OF_NAMESPACES = declared(
    Parameter("ns", Type.STRING, required=True),
    Parameter("collectionUUID", Type.UUID, unsupported="collections are named, not identified"),
    Parameter("encryptionInformation", Type.OBJECT, unsupported="encrypted collections are not supported"),
)
_RUN_FIELD = {"insert": "documents", "update": "updates", "delete": "deletes"}
_OWN = frozenset(("bulkWrite", "ops", "nsInfo", "ordered", "errorsOnly", "cursor", "stmtId", "stmtIds"))


@dataclass(frozen=True, slots=True)
class Run:
    """Statements of a `kind` ("insert", "update", "delete"). `first`: the index of the first operation in the
    request.
    """

    kind: str
    namespace: str
    first: int
    statements: list[bytes]

    @property
    def field(self) -> str:
        """The field with the statements in a command of that kind."""
        return _RUN_FIELD[self.kind]

    def request(self, context: Context) -> Context:
        """Return the request on the run's collection, with the statement ids of its operations."""
        session = context.session
        if session is not None:
            operation_numbers = range(self.first, self.first + len(self.statements))
            session = session._replace(stmt_ids=tuple(map(session.statement_id, operation_numbers)))
        database, _ = split_namespace(self.namespace)
        return context.derived(db=database, namespace=self.namespace, session=session)

    def command(self, context: Context, *, ordered: bool) -> bytes:
        """Return the request as an insert, update or delete command without its statements."""
        head = {self.kind: split_namespace(self.namespace)[1], "ordered": ordered}
        # An insert has no expressions, so it needs no variables.
        left_out = _OWN | {"let"} if self.kind == "insert" else _OWN
        shared_fields = (element for element in elements(context.raw) if element[0] not in left_out)
        return document_from([*((name, *from_python(value)) for name, value in head.items()), *shared_fields])


def runs_of(context: Context, arguments: Arguments) -> list[Run]:
    """Return the runs of a request, in order. Errors: those of `read_runs`."""
    reading = read_runs(context, arguments)
    try:
        while True:
            next(reading)
    except StopIteration as end:
        runs: list[Run] = end.value
        return runs


def read_runs(context: Context, arguments: Arguments) -> Generator[None, None, list[Run]]:
    """Parse the runs, yielding regularly; the return value is their list.

    Errors: InvalidLength; FailedToParse for a malformed operation; BadValue for a collection missing in `nsInfo`;
    InvalidNamespace; InvalidOptions for a retryable operation on many documents; those of fields.
    """
    operations: list[bytes] = arguments["ops"]
    if not 1 <= len(operations) <= MAX_WRITE_BATCH:
        raise batch_refused(len(operations))
    namespaces: list[str] = []
    for namespace in _namespaces(arguments["nsInfo"]):
        spend(_PER_NAMESPACE)
        namespaces.append(namespace)
        if len(namespaces) % PACE == 0:
            yield
    session = context.session
    in_transaction = session is not None and session.in_transaction | (session.transaction is not None)
    if in_transaction:
        for namespace in namespaces:
            check_database(split_namespace(namespace)[0])
            if split_namespace(namespace)[1].startswith("system."):
                raise CommandError(50791, f"Cannot write to system collection {namespace} within a transaction.")
    retryable = session is not None and session.txn_number is not None and not in_transaction
    runs: list[Run] = []
    run: Run | None = None
    for index, raw in enumerate(operations):
        if index % PACE == PACE - 1:
            yield
        kind, namespace_index, statement, is_multi = bulk_operation(raw) or _statement(raw)
        if not 0 <= namespace_index < len(namespaces):
            raise CommandError(
                Code.BadValue,
                f"BulkWrite ops entry {index} names namespace {namespace_index}, which nsInfo does not have",
            )
        if is_multi and retryable:
            raise CommandError(Code.InvalidOptions, "Cannot use retryable writes with multi=true")
        if run is None or run.kind != kind or run.namespace != namespaces[namespace_index]:
            run = Run(kind, namespaces[namespace_index], index, [])
            runs.append(run)
        run.statements.append(statement)
    return runs


def _namespaces(described: Iterable[bytes]) -> Iterator[str]:
    for raw in described:
        namespace = parse_fields("bulkWrite.nsInfo", raw, _OF_NAMESPACES)["ns"]
        database, name = split_namespace(namespace)
        check_database_name(database)
        yield check_collection_name(database, name)


def _statement(raw: bytes) -> tuple[str, int, bytes, bool]:
    """Parse any operation, as `bulk_operation`."""
    fields = elements(raw)
    kind = fields[0][0] if fields else ""
    if kind not in _FIELDS:
        raise CommandError(
            Code.FailedToParse, f"BulkWrite ops entry must begin with insert, update or delete, not '{kind}'"
        )
    values = parse_fields(f"bulkWrite.{kind}", raw, _FIELDS[kind])
    namespace_index: int = values[kind]
    if kind == "insert":
        return kind, namespace_index, values["document"], False
    is_multi: bool = values["multi"]
    operation_fields = {name: (code, data) for name, code, data in fields[1:] if name in values}
    if kind == "delete":
        operation_fields.pop("multi", None)
    statement_fields = [(_IN_STATEMENTS.get(name, name), *value) for name, value in operation_fields.items()]
    return (
        kind,
        namespace_index,
        document_from([*statement_fields, _LIMIT[is_multi]] if kind == "delete" else statement_fields),
        is_multi,
    )


@dataclass(slots=True)
class Tally:
    """The outcomes of the operations so far. `errors_only`: list only failed ones."""

    errors_only: bool = False
    inserted: int = 0
    matched: int = 0
    modified: int = 0
    upserted: int = 0
    deleted: int = 0
    failed: int = 0
    retried: list[int] = field(default_factory=list)
    listed: list[bytes] = field(default_factory=list)
    """The documents of the reply's cursor, one per listed operation, in the order of their completion."""

    def done(self, kind: str, index: int, n: int = 1, modified: int = 0, upserted: Value | None = None) -> None:
        """Record an operation that affected `n` documents; `upserted`: the `_id` of an inserted one."""
        if kind == "insert":
            self.inserted += n
        elif kind == "delete":
            self.deleted += n
        else:
            upsert_count = int(upserted is not None)
            self.upserted += upsert_count
            self.matched += n - upsert_count
            self.modified += modified
        if self.errors_only:
            return
        parts = [_DONE.pack(b"\x01ok\0", 1.0, b"\x10idx\0", index, b"\x10n\0", n)]
        if kind == "update":
            parts.append(b"\x10nModified\0" + _INT.pack(modified))
            if upserted is not None:
                parts.append(b"\x03upserted\0" + document_from([("_id", *upserted)]))
        self.listed.append(enclosed(b"".join(parts)))

    def done_all(self, kind: str, counts: Sequence[int], modified: Sequence[int], upserted: int) -> None:
        """Record operations by their numbers of affected and modified documents, and the upserts; none is listed."""
        assert self.errors_only, "what is listed has an answer of its own"
        n = sum(counts)
        if kind == "insert":
            self.inserted += n
        elif kind == "delete":
            self.deleted += n
        else:
            self.upserted += upserted
            self.matched += n - upserted
            self.modified += sum(modified)

    def fail(self, kind: str, index: int, error: Mapping[str, Any]) -> None:
        """Record a failed operation: `{code, errmsg, ...}`."""
        self.failed += 1
        fields = [_NOT_OK, ("idx", INT32, _INT.pack(index))]
        fields += [(name, *from_python(value)) for name, value in error.items() if name != "index"]
        fields.append(("n", INT32, _INT.pack(0)))
        if kind == "update":
            fields.append(("nModified", INT32, _INT.pack(0)))
        self.listed.append(document_from(fields))

    def reply(self, cursor: bytes, concern_error: Mapping[str, Any] | None, tail: bytes = b"") -> bytes:
        """Return the reply: the encoded `cursor`, the counts, and the encoded fields of `tail`."""
        counts = {
            "nErrors": self.failed,
            "nInserted": self.inserted,
            "nMatched": self.matched,
            "nModified": self.modified,
            "nUpserted": self.upserted,
            "nDeleted": self.deleted,
        }
        fields = [(name, INT32, _INT.pack(count)) for name, count in counts.items()]
        document = document_from(fields)
        if concern_error is not None:
            document = append_fields(document, b"\x03writeConcernError\0" + from_python(concern_error)[1])
        if self.retried:
            ids = array_from((INT32, _INT.pack(stmt_id)) for stmt_id in self.retried)
            document = append_fields(document, b"\x04retriedStmtIds\0" + ids)
        return append_fields(cursor, encoded_fields(document) + tail)


def statements_of(runs: Sequence[Run]) -> Iterator[bytes]:
    """Yield the statements of all runs."""
    for run in runs:
        yield from run.statements
