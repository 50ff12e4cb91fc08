"""What a command sees of the request it answers, and what the dispatcher asks of its host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from docstore.bson import array_documents, get_field
from docstore.bson.walk import ARRAY, Value
from docstore.commands.concerns import DEFAULT_WRITE_CONCERN, LOCAL, PRIMARY, ReadConcern, ReadPreference, WriteConcern
from docstore.commands.metrics import Metrics
from docstore.commands.parameters import ParameterTable
from docstore.commands.values import wrong_type
from docstore.errors import no_scripting
from docstore.wire.compression import COMPRESSOR_IDS
from docstore.wire.message import EXHAUST_ALLOWED, Message

if TYPE_CHECKING:
    from docstore.commands.client_connection import ClientConnection
    from docstore.commands.cursors import CursorRegistry
    from docstore.commands.declaration import Command, CommandTable
    from docstore.commands.fail_points import FailPoints, Failure
    from docstore.commands.gossip import EncodedGossip
    from docstore.commands.operations.registry import Operation, OperationRegistry
    from docstore.commands.sessions.fields import Session
    from docstore.commands.sessions.registry import ClientSessions

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


class Host(Protocol):
    """What the executable's node answers for: its place in a replica set and its cluster time."""

    def check_write(self) -> None:
        """Raise NotWritablePrimary unless writes are taken here."""

    def check_read(self, read_preference: ReadPreference) -> None:
        """Raise NotPrimaryNoSecondaryOk or NotPrimaryOrSecondary when the read may not run here."""

    def gossip(self) -> EncodedGossip:
        """`operationTime` and `$clusterTime` for replies, or nothing. Return the same object while nothing changed:
        what is made of it is kept."""

    def observe_cluster_time(self, document: Mapping[str, Any]) -> None:
        """Take in a request's `$clusterTime`."""

    def state_version(self) -> Mapping[str, Any] | None:
        """`{processId, counter}` of a member of a set, attached to errors that tell of a state change."""


@dataclass(slots=True)
class Switches:
    """What setParameter changes for all commands of a process."""

    require_api_version: bool = False
    """Refuse requests that name no version of the Stable API."""
    compressors: tuple[str, ...] = tuple(COMPRESSOR_IDS)
    """Those that clients may agree on."""
    scripting: bool = True
    """JavaScript is run for clients."""

    def check_scripting(self) -> None:
        """Errors: 31264 where none is run."""
        if not self.scripting:
            raise no_scripting()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all commands of a process share. `clock`: monotonic seconds; `wall_clock`: seconds since 1970.

    `observers` are told of each request that has been answered, with the body of its reply.
    """

    table: CommandTable
    host: Host
    sessions: ClientSessions
    cursors: CursorRegistry
    operations: OperationRegistry
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    observers: list[Callable[[Context, bytes], None]] = field(default_factory=list)
    parameters: ParameterTable = field(default_factory=ParameterTable)
    switches: Switches = field(default_factory=Switches)
    metrics: Metrics = field(default_factory=Metrics)
    peers: set[ClientConnection] = field(default_factory=set)
    """Who is connected."""
    fail_points: FailPoints | None = None
    """None where tests must not interfere."""
    carry_out: Callable[[Context, Callable[[], Any]], Awaitable[Any]] | None = None
    """Carries a request out where its scripts can run; None where no process does."""


class Context:
    """One request on its way through a command.

    * `db`, `namespace`: the request's database; "database.collection" when the command's value is a collection name.
    * `view`: the view that was asked for, while the request is carried out on what is below it.
    * `node`: the executable's own object. `connection`: who asks. `services`: the process's registries.
    * `raw`: the request's document as it came. `sequences`: its document sequences, by name.
    * `session`, `read_concern`, `write_concern`, `read_preference`, `comment`, `txn_number` on `session`.
      `explicit_*` say whether the client gave the concern itself.
    * `started`, `deadline`: in seconds of `services.clock`; the deadline comes from maxTimeMS, None without.
    * `exhaust`: the client takes several replies to this one request.
    * `at_cluster_time`: the packed timestamp of the state that a snapshot read sees, once that is known.
    * `api_version`; `api_strict`: the client asked for the Stable API and nothing else.
    * `shard_version`: the raw document of a router.
    * `help_asked`: answer with the command's help instead of running it.
    * `induced`: what a fail point makes of the reply.
    * `whole_ok`: the reply says `ok` with an int, as count and distinct of a view do.
    """

    # Most requests carry few of these: what is not carried stays with the class.
    db: str = ""
    namespace: str = ""
    view: str = ""
    session: Session | None = None
    read_concern: ReadConcern = LOCAL
    write_concern: WriteConcern = DEFAULT_WRITE_CONCERN
    read_preference: ReadPreference = PRIMARY
    explicit_read_concern: bool = False
    explicit_write_concern: bool = False
    deadline: float | None = None
    max_time_ms: int = 0
    comment: Value | None = None
    cluster_time: bytes | None = None
    at_cluster_time: int | None = None
    shard_version: bytes | None = None
    api_version: str | None = None
    api_strict: bool = False
    help_asked: bool = False
    induced: Failure | None = None
    whole_ok: bool = False
    _body: dict[str, Any] | None = None
    _operation: Operation | None = None

    def __init__(
        self,
        command: Command,
        request: Message,
        connection: ClientConnection,
        node: Any,
        services: Services,
        started: float,
    ) -> None:
        self.command = command
        self.connection = connection
        self.node = node
        self.services = services
        self.started = started
        self.raw = request.body
        self.sequences: Mapping[str, list[bytes]] = request.sequences
        self.exhaust = bool(request.flags & EXHAUST_ALLOWED)

    @property
    def body(self) -> dict[str, Any]:
        """The request's document decoded (dates as `DatetimeMS`). Never re-encode values from here: take them raw."""
        if self._body is None:
            self._body = bson.decode(self.raw, _CODEC)
        return self._body

    @property
    def operation(self) -> Operation:
        """This request as currentOp shows it and killOp ends it."""
        if self._operation is None:
            self._operation = self.services.operations.start(self)
        return self._operation

    @property
    def started_operation(self) -> Operation | None:
        """The operation if anything asked for it yet."""
        return self._operation

    def documents(self, name: str) -> list[bytes]:
        """The documents of that name, from a document sequence or from an array of the body; [] when absent.

        Errors: TypeMismatch when the field is no array of documents.
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
        """The value bytes of a top-level field; None when absent."""
        value = get_field(self.raw, name)
        return None if value is None else value[1]
