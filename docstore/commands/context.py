"""The context of a request for its command, and the services that the dispatcher requires of its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

import bson
import cython
from bson.codec_options import CodecOptions, DatetimeConversion

from docstore.bson import array_documents, document_from, elements, get_field, without_fields
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value
from docstore.commands.access.control import AccessControl
from docstore.commands.concerns import DEFAULT_WRITE_CONCERN, LOCAL, PRIMARY, ReadConcern, ReadPreference, WriteConcern
from docstore.commands.host import Execution, Host, Switches
from docstore.commands.metrics import Metrics
from docstore.commands.parameters import ParameterTable
from docstore.commands.parts import Parts
from docstore.commands.sessions.fields import NO_USER_DIGEST, owned_lsid
from docstore.commands.values import wrong_type
from docstore.namespace import USERS_NS, split_namespace
from docstore.wire.message import EXHAUST_ALLOWED, Message

if TYPE_CHECKING:
    from docstore.commands.access.need import Need
    from docstore.commands.access.transport_security import TransportSecurity
    from docstore.commands.arguments import Arguments
    from docstore.commands.client_connection import ClientConnection
    from docstore.commands.cursors import CursorRegistry
    from docstore.commands.declaration import Command, CommandTable, Response, Sequences
    from docstore.commands.fail_points.registry import FailPoints, Failure
    from docstore.commands.operations.registry import Operation, OperationRegistry
    from docstore.commands.sessions.activity import TransactionActivity
    from docstore.commands.sessions.fields import Session
    from docstore.commands.sessions.registry import ClientSessions
    from docstore.security.names import UserName

_LSID = frozenset((b"lsid",))
_HIDDEN = b"\4\0\0\0xxx\0"
_WRITTEN = ("documents", "updates", "update")
"""Fields of write commands whose documents may contain credentials, when they are user documents."""
_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


class Audit(Protocol):
    """The audit log of a process. `rotate` starts a new log."""

    rotate: Callable[[], None]

    def note(
        self, connection: ClientConnection | None, kind: str, parameters: Mapping[str, Any], result: int = 0
    ) -> None:
        """Write an event of that client; None: of the process itself."""

    def observe(self, context: Context, body: bytes) -> None:
        """Audit a request that was answered with that body."""

    def client_metadata(self, connection: ClientConnection, metadata: bytes) -> None:
        """Write the metadata of the client's handshake."""

    def abandoned(self, connection: ClientConnection) -> None:
        """Write that the client has abandoned a conversation in progress, if there is one."""

    def disconnected(self, connection: ClientConnection) -> None:
        """Write that the client has disconnected."""


class Transactions(Protocol):
    """The transactions of a process that executes them."""

    def run(
        self, context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
    ) -> Response:
        """Execute a request that is part of a transaction; `execute` runs the command."""

    def end_sessions(self, lsids: set[bytes]) -> None:
        """Abort the open transactions of those sessions; of all if the set is empty."""

    def activities(self) -> Iterable[TransactionActivity]:
        """Return the activity of each transaction that is open or prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services shared by all commands of a process. `clock`: monotonic seconds; `wall_clock`: seconds since 1970.

    `observers` are called with each answered request and its reply body. `parts`: services of the executable.
    """

    table: CommandTable
    host: Host
    sessions: ClientSessions
    cursors: CursorRegistry
    operations: OperationRegistry
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    observers: list[Callable[[Context, bytes], None]] = field(default_factory=list)
    parts: Parts = field(default_factory=Parts)
    parameters: ParameterTable = field(default_factory=ParameterTable)
    access: AccessControl = field(default_factory=AccessControl)
    transport_security: TransportSecurity | None = None
    """None without TLS."""
    audit: Audit | None = None
    """None without an audit log."""
    switches: Switches = field(default_factory=Switches)
    metrics: Metrics = field(default_factory=Metrics)
    peers: set[ClientConnection] = field(default_factory=set)
    """The connected clients."""
    fail_points: FailPoints | None = None
    """None unless test commands are enabled."""
    transactions: Transactions | None = None
    """None if the process executes no transactions."""
    carry_out: Callable[[Context, Callable[[], Any]], Awaitable[Any]] | None = None
    """Runs a request where its scripts can run; None without script processes."""
    run_on_thread: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    """Runs work on a thread that can block, without scripts; None without threads."""
    supervised_pause: Callable[[], bool] | None = None
    """Yields to other tasks if the request runs on a thread that can block; returns True if it did."""
    memory: Callable[[], int] = lambda: 0
    """Return the memory of the process in bytes."""

    def with_parts(self, parts: Parts) -> Services:
        """Return these services with other parts. Each transaction has its own, so the checks of `replace` are
        skipped.
        """
        services: Services = Services.__new__(Services)
        for get, assign in _SERVICES:
            assign(services, get(self))
        _PUT_PARTS(services, parts)
        return services


_SERVICES = [(slot.__get__, slot.__set__) for slot in (vars(Services)[field.name] for field in fields_of(Services))]
_PUT_PARTS = vars(Services)["parts"].__set__


def redacted(table: CommandTable, command: Command, raw: bytes, sequences: Sequences, namespace: str) -> bytes:
    """Return a request's document with "xxx" in place of sensitive values, also in a wrapped command.

    `namespace`: that of the request; empty for none.
    """
    hidden = command.sensitive or (_WRITTEN if namespace == USERS_NS else ())
    if callable(hidden):
        hidden = hidden(raw, sequences)
    if not hidden and not command.wraps_command:
        return raw
    fields = [(name, STRING, _HIDDEN) if name in hidden else (name, code, data) for name, code, data in elements(raw)]
    if command.wraps_command and fields[0][1] == OBJECT:
        fields[0] = (fields[0][0], OBJECT, _redacted_inside(table, fields[0][2], split_namespace(namespace)[0]))
    return document_from(fields)


def _redacted_inside(table: CommandTable, raw: bytes, db: str) -> bytes:
    """Return the displayed form of a wrapped command; only the name of an unknown one."""
    fields = elements(raw)
    if not fields:
        return raw
    name, code, data = fields[0]
    if name not in table:
        return document_from([(name, STRING, _HIDDEN)])
    namespace = f"{db}.{data[4:-1].decode('utf-8', 'replace')}" if code == STRING else f"{db}."
    return redacted(table, table.get(name), raw, {}, namespace)


class RequestFields(TypedDict, total=False):
    """Fields of a `Context`, for its constructor."""

    command: Command
    services: Services
    raw: bytes
    sequences: Mapping[str, list[bytes]]
    db: str
    namespace: str
    view: str
    session: Session | None
    read_concern: ReadConcern
    write_concern: WriteConcern
    read_preference: ReadPreference
    explicit_read_concern: bool
    explicit_write_concern: bool
    deadline: float | None
    max_time_ms: int
    comment: Value
    cluster_time: bytes
    shard_version: bytes
    api_version: str
    api_strict: bool
    help_asked: bool


class RequestProgress:
    """The mutable state of a request, and extra reply fields. A request and all its derived requests share one.

    * `operation`: the request's entry in currentOp, once needed.
    * `namespace`: the resolved namespace, for reports; empty if the request names it.
    * `deadline`: the command's own deadline, as `Context.deadline`.
    * `at_cluster_time`: see `Context`.
    * `statement_time`: NOW in milliseconds and CLUSTER_TIME as 64 bits, on a router; None until they are needed.
    * `induced`: a fail point's effect on the reply.
    * `apart`: the request was restarted on a thread that can block. `irrevocable`: it must not be restarted, because it
      has begun to write.
    * `writing`: the progress of a write, which continues if the request is restarted.
    * `memory_before`: the bytes of the process before the request allocated much; `unmeasured`: the bytes allocated
      since the last measurement.
    * `execution`: its plans, if known.
    * `whole_ok`: the reply has `ok` as an int, like count and distinct on a view.
    """

    def __init__(self) -> None:
        self.operation: Operation | None = None
        self.namespace = ""
        self.deadline: float | None = None
        self.at_cluster_time: int | None = None
        self.statement_time: tuple[int, int] | None = None
        self.induced: Failure | None = None
        self.execution: Execution | None = None
        self.whole_ok = False
        self.apart = False
        self.irrevocable = False
        self.writing: Any = None
        self.memory_before: int | None = None
        self.unmeasured = 0


class Context:
    """One request on its way through a command. It is immutable; its mutable state is in `progress`.

    * `db`, `namespace`: the request's database; "database.collection" if the command's value is a collection name.
    * `view`: the view of the original request, in the request on its underlying collection.
    * `connection`: the client. `services`: the process's registries and parts.
    * `raw`: the request's document as received. `sequences`: its document sequences, by name.
    * `session`, `read_concern`, `write_concern`, `read_preference`, `comment`, `txn_number` on `session`. `explicit_*`:
      the client sent the concern itself.
    * `started`, `deadline`: in seconds of `services.clock`; the deadline comes from maxTimeMS, None without.
    * `exhaust`: the client accepts several replies to this request.
    * `api_version`; `api_strict`: the client restricts itself to the Stable API.
    * `shard_version`: the raw document of a router.
    * `help_asked`: reply with the command's help instead of running it.
    * `begun_progress`: its progress, if any; most requests have none.
    * `admitted`: the privileges it needed, if the command's declared privilege does not determine them.
    * `identity`, `session_owner`: the user as which it was admitted, and the digest of who owns its sessions.
    """

    def __init__(
        self,
        command: Command,
        request: Message,
        connection: ClientConnection,
        services: Services,
        started: float,
        fields: RequestFields,
    ) -> None:
        self.command = command
        self.connection = connection
        self.services = services
        self.started = started
        self.raw: bytes = request.body
        self.sequences = request.sequences
        self.exhaust = bool(request.flags & EXHAUST_ALLOWED)
        self.db = ""
        self.namespace = ""
        self.view = ""
        self.session: Session | None = None
        self.read_concern = LOCAL
        self.write_concern = DEFAULT_WRITE_CONCERN
        self.read_preference = PRIMARY
        self.explicit_read_concern = False
        self.explicit_write_concern = False
        self.deadline: float | None = None
        self.max_time_ms = 0
        self.comment: Value | None = None
        self.cluster_time: bytes | None = None
        self.shard_version: bytes | None = None
        self.api_version: str | None = None
        self.api_strict = False
        self.help_asked = False
        self.begun_progress: RequestProgress | None = None
        self.admitted: tuple[Need, ...] | None = None
        self.identity = connection.identity
        self.session_owner = connection.session_owner
        self._body: dict[str, Any] | None = None
        for name, value in fields.items():
            setattr(self, name, value)

    @cython.ccall
    def copy(self) -> Context:
        """Return a copy, whose differing fields the caller sets at once."""
        copy: Context = Context.__new__(Context)
        copy.command = self.command
        copy.connection = self.connection
        copy.services = self.services
        copy.started = self.started
        copy.raw = self.raw
        copy.sequences = self.sequences
        copy.exhaust = self.exhaust
        copy.db = self.db
        copy.namespace = self.namespace
        copy.view = self.view
        copy.session = self.session
        copy.read_concern = self.read_concern
        copy.write_concern = self.write_concern
        copy.read_preference = self.read_preference
        copy.explicit_read_concern = self.explicit_read_concern
        copy.explicit_write_concern = self.explicit_write_concern
        copy.deadline = self.deadline
        copy.max_time_ms = self.max_time_ms
        copy.comment = self.comment
        copy.cluster_time = self.cluster_time
        copy.shard_version = self.shard_version
        copy.api_version = self.api_version
        copy.api_strict = self.api_strict
        copy.help_asked = self.help_asked
        copy.begun_progress = self.begun_progress
        copy.admitted = self.admitted
        copy.identity = self.identity
        copy.session_owner = self.session_owner
        copy._body = None
        return copy

    def hand_over(self, other: Context) -> None:
        """Give `other`, which is the same request, its progress."""
        other.begun_progress = self.begun_progress

    def derived(self, **changes: Unpack[RequestFields]) -> Context:
        """Return this request with `changes`, executed in its place; both share one progress."""
        context = self.copy()
        context.begun_progress = self.progress
        context.admitted = self.needs
        for name, value in changes.items():
            setattr(context, name, value)
        return context

    def about(self, namespace: str) -> Context:
        """Return this request on its resolved namespace, which reports use from now on."""
        if namespace == self.namespace:
            return self
        self.progress.namespace = namespace
        return self.derived(namespace=namespace)

    def name_owner(self) -> None:
        """Add the session's owner to the request, for relaying it to another process."""
        session = self.session
        if session is not None and session.lsid[16:] != NO_USER_DIGEST:
            self.raw = without_fields(self.raw, _LSID, owned_lsid(session.lsid))
            self._body = None

    @property
    def progress(self) -> RequestProgress:
        if self.begun_progress is None:
            self.begun_progress = RequestProgress()
        assert self.begun_progress is not None, "it has just been made"
        return self.begun_progress

    @property
    def at_cluster_time(self) -> int | None:
        """The packed timestamp of a snapshot read, once known."""
        progress = self.begun_progress
        return None if progress is None else progress.at_cluster_time

    @property
    def reported_namespace(self) -> str:
        """The namespace shown by currentOp, top, the profiler and the log."""
        progress = self.begun_progress
        return self.namespace if progress is None else progress.namespace or self.namespace

    @property
    def body(self) -> dict[str, Any]:
        """The request's document decoded (dates as `DatetimeMS`). Never re-encode values from here: take them raw."""
        if self._body is None:
            self._body = bson.decode(self.raw, _CODEC)
        return self._body

    @property
    def redacted_request(self) -> bytes:
        """The request's document without sensitive values, for logs, currentOp, the profiler and errors."""
        namespace = self.namespace or f"{self.db}."
        return redacted(self.services.table, self.command, self.raw, self.sequences, namespace)

    @property
    def figures(self) -> dict[str, Any]:
        """Return the plans, their counters and the outcome, for the log; {} if unknown."""
        progress = self.begun_progress
        execution = None if progress is None else progress.execution
        return {} if execution is None else {**execution.figures(), **execution.counts}

    @property
    def owner(self) -> UserName | None:
        """The owner of its cursors and operations; None without access control."""
        identity = self.identity
        return identity.user.name if identity is not None and self.services.access.enabled else None

    @cython.ccall
    def identify(self) -> None:
        """Make the connection's user that of the request, to its end: the connection may be logged out meanwhile."""
        self.identity = self.connection.identity
        self.session_owner = self.connection.session_owner

    def admit(self, needs: tuple[Need, ...]) -> None:
        """Record the privileges the request needed, for cursors that outlive it."""
        self.admitted = needs

    @property
    def needs(self) -> tuple[Need, ...]:
        """The privileges the request needed; empty without access control."""
        if self.owner is None:
            return ()
        return self.command.privilege.needs(self.db, self.namespace) if self.admitted is None else self.admitted

    @property
    def operation(self) -> Operation:
        """The request's entry in currentOp, which killOp ends."""
        progress = self.progress
        if progress.operation is None:
            progress.operation = self.services.operations.start(self)
        return progress.operation

    def documents(self, name: str) -> list[bytes]:
        """Return the documents of that name, from a document sequence or an array of the body; [] if absent.

        Errors: TypeMismatch if the field is no array of documents.
        """
        sequence = self.sequences.get(name)
        if sequence is not None:
            return sequence
        value = get_field(self.raw, name)
        if value is None:
            return []
        if value[0] != ARRAY:
            raise wrong_type(f"{self.command.name}.{name}", value[0], "array")
        return array_documents(value[1])

    def raw_field(self, name: str) -> bytes | None:
        """Return the value bytes of a top-level field; None if absent."""
        value = get_field(self.raw, name)
        return None if value is None else value[1]
