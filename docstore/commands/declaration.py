"""Declarations of commands, their parameters, and the command table of an executable.

A `Spec` declares everything but the handler; a handler makes a `Command` of it. A command with a single handler is
declared beside it, as a `Command`. One that several kinds of process serve, each with its own handler, has its spec in
`docstore.commands.specs`; each handler declares its deviations with a reason (`Exceptional`). An executable joins
commands into one `CommandTable`. Parsing, privileges, listCommands and the compatibility tables are derived from
declarations.

- No two commands of a table share a name or an alias.
- A name is either served or unsupported, never both.
- Every parameter of a command is declared, or the command is declared tolerant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, overload

import bson

from docstore.bson.build import DocumentParts
from docstore.commands.access.need import Need, on_cluster, on_database, on_namespace
from docstore.commands.limits import Face
from docstore.errors import Code, CommandError

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context

Encoded = bytes | DocumentParts
"""An encoded document, in parts if it is large."""

Result = dict[str, Any] | Encoded
"""The result of a command: the reply's fields without `ok`, as a dict or encoded."""
RESULTS = (bytes, dict, DocumentParts)


@overload
def in_one_piece(result: Encoded) -> bytes: ...
@overload
def in_one_piece(result: Result) -> dict[str, Any] | bytes: ...
def in_one_piece(result: Result) -> dict[str, Any] | bytes:
    """Return the result, joined if it is in parts."""
    return result.document() if isinstance(result, DocumentParts) else result


def encoded(result: Result) -> bytes:
    """Return the result as one encoded document."""
    document = in_one_piece(result)
    return document if isinstance(document, bytes) else bson.encode(document)


class Type(Enum):
    """The type of a field, and the Python value that `Arguments` returns for it.

    Null and undefined count as absent, as in the real server's parser, except for ANY, HINT and the types that say so.
    """

    ANY = "any"
    """Any value: `Value`, the pair (BSON type byte, raw bytes)."""
    STRING = "string"
    """`str`"""
    HINT = "hint"
    """`Value`: an index's name or its key."""
    COLLECTION = "collection"
    """`str`: a valid collection name of the command's database."""
    NAMESPACE = "namespace"
    """`str`: a full "database.collection"."""
    BOOL = "bool"
    """`bool`, from a boolean only."""
    SAFE_BOOL = "safeBool"
    """`bool`, from a boolean or any number."""
    STRICT_BOOL = "optionalBool"
    """`bool`, from a boolean only; null is a wrong type."""
    INT = "safeInt"
    """`int`, from any number; fractions of doubles are cut off, decimals rounded, values beyond 64 bits clamp."""
    WHOLE = "whole"
    """`int`, from any number without a fraction. Errors: BadValue for another type, null too, FailedToParse."""
    LONG = "long"
    """`int`, from a 64-bit integer only."""
    NUMBER = "number"
    """`int` or `float`, from any number."""
    STRICT_OBJECT = "optionalObject"
    """As OBJECT; null is a wrong type."""
    OBJECT = "object"
    """`bytes`: the raw document."""
    ARRAY = "array"
    """`bytes`: the raw array."""
    DOCUMENTS = "documents"
    """`list[bytes]`: an array of documents, or the document sequence of that name."""
    STRINGS = "strings"
    """`list[str]`"""
    LONGS = "longs"
    """`list[int]`, from an array of 64-bit integers."""
    OBJECT_ID = "objectId"
    """`bson.ObjectId`"""
    UUID = "uuid"
    """`bytes`, 16 of them, from a binary of subtype 4."""
    TIMESTAMP = "timestamp"
    """`bson.Timestamp`"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a command.

    * `type`: one type, or a tuple of alternatives; the Python value follows the type that matched.
    * `default`: the value that `Arguments` returns if the field is absent.
    * `minimum`, `maximum`: inclusive bounds of a number (Location51024 outside).
    * `unsupported`: a sentence; the field is known, and refused with NotImplemented unless it has no effect (false,
      zero, or an empty document, array or string).
    * `distinct`: its value is decoded as a whole, so no document in it may have duplicate fields (Location40413).
    * `internal`: sent only between processes of this project; hidden from users.
    """

    name: str
    type: Type | tuple[Type, ...]
    required: bool = False
    default: Any = None
    minimum: int | None = None
    maximum: int | None = None
    unsupported: str | None = None
    internal: bool = False
    distinct: bool = False

    @property
    def types(self) -> tuple[Type, ...]:
        return self.type if isinstance(self.type, tuple) else (self.type,)


class Role(Enum):
    """The replica set members on which a command may run."""

    PRIMARY = "primary"
    """Writes: only a writable primary (except on `local`)."""
    SECONDARY_OK = "secondaryOk"
    """Reads: a primary, or a secondary if the read preference allows it."""
    ANY = "any"
    """Any member in any state."""


class Resource(Enum):
    """The kind of resource that a privilege applies to."""

    COLLECTION = "collection"
    DATABASE = "database"
    CLUSTER = "cluster"
    USER = "user"
    """Needs an authenticated user, but no privilege."""
    NONE = "none"
    """Needs no privilege; public before authentication."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """The right to perform `action` (MongoDB's privilege action names) on a resource."""

    action: str
    resource: Resource

    def needs(self, db: str, namespace: str) -> tuple[Need, ...]:
        """Return the needs of a request to a database, on a namespace or none."""
        if self.resource in (Resource.NONE, Resource.USER):
            return ()
        if self.resource is Resource.CLUSTER:
            return on_cluster(self.action)
        if self.resource is Resource.DATABASE:
            return on_database(db, self.action)
        return on_namespace(namespace or db, self.action)


PUBLIC = Privilege("", Resource.NONE)
"""For commands that anyone may call, even before authentication."""
AUTHENTICATED = Privilege("", Resource.USER)
"""For commands that every user may call, e.g. about their own sessions."""
INTERNAL = Privilege("internal", Resource.CLUSTER)
"""For commands that only other members of the cluster call."""

Response = Result | Awaitable[Result]
"""The return value of a command: its result, or an awaitable of it. A result is never itself awaitable."""

Sequences = Mapping[str, list[bytes]]
"""Document sequences of a request, by parameter name."""

Run = Callable[["Context", "Arguments"], Response]

Needs = Callable[["Context", "Arguments"], Iterable[Need]]
"""Returns the needs of a request, for a command whose declared privilege is not sufficient."""


class Exceptional:
    """A process's deviation from a command's spec: `Exceptional("a router has no oplog", retryable=False)`.

    `because`: the reason, for the reader. `parameters` replace those of the spec by name, or follow them. `traits`:
    other fields of the spec. Each must differ from the spec.
    """

    __slots__ = ("because", "parameters", "traits")

    def __init__(self, because: str, *parameters: Parameter, **traits: Any) -> None:
        assert because, "an exception has a reason"
        self.because = because
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self.traits = traits

    def applied(self, traits: dict[str, Any]) -> dict[str, Any]:
        """Return a spec's traits with this exception applied."""
        parameters = {parameter.name: parameter for parameter in traits["parameters"]}
        for name, parameter in self.parameters.items():
            assert parameters.get(name) != parameter, f"{traits['name']}.{name} is no exception"
        for name, trait in self.traits.items():
            assert traits[name] != trait, f"{name} of {traits['name']} is no exception"
        return traits | self.traits | {"parameters": tuple((parameters | self.parameters).values())}


@dataclass(frozen=True, slots=True)
class Spec:
    """The declaration of a command, common to all handlers: `Spec("find", privilege=..., role=..., help="...")`."""

    name: str
    _: KW_ONLY
    privilege: Privilege
    role: Role
    aliases: tuple[str, ...] = ()
    """Other spellings, e.g. the lower-case ones of 2012, with the same meaning."""
    value: Type | tuple[Type, ...] = Type.ANY
    """The type of the field named like the command; with COLLECTION `Context.namespace` is set."""
    wrong_name: Code = Code.BadValue
    """The error code for a collection name that is no string."""
    parameters: tuple[Parameter, ...] = ()
    admin_only: bool = False
    tolerant: bool = False
    """Unknown fields are ignored, as the real server does for hello and buildInfo."""
    read_concern: bool = False
    """Accepts readConcern levels other than `local`."""
    snapshot_reads: bool = False
    """Accepts readConcern level `snapshot`."""
    write_concern: bool | None = None
    """Accepts a writeConcern; None: exactly if it needs a primary."""
    retryable: bool = False
    """Accepts a txnNumber: a retryable write."""
    in_transactions: bool = False
    """Allowed in multi-document transactions."""
    own_deadline: bool = False
    """The dispatcher does not enforce maxTimeMS (getMore: the time to await data)."""
    pausable: bool = False
    """Evaluating its expressions may yield: the data it has read does not change."""
    repeatable: bool = False
    """May be restarted until it has answered: it changes nothing unless it sets `irrevocable`."""
    since: int = 0
    """The wire version of the servers that introduced it."""
    stable: bool = False
    """Part of the Stable API, version 1."""
    following: Callable[[Context, bytes], bytes | None] | None = None
    """For exhaust requests: maps the reply's body to the body of the next implied request; None ends the stream."""
    needs: Needs | None = None
    """The needs of a request, if the declared privilege is not sufficient."""
    sensitive: tuple[str, ...] | Callable[[bytes, Sequences], tuple[str, ...]] = ()
    """Fields whose values are redacted in logs, errors, currentOp and the profiler.

    A function derives them from a request's document and its document sequences.
    """
    wraps_command: bool = False
    """The field named like the command is another command, which is redacted likewise."""
    refuses: str = ""
    """The reason why every request is refused; empty for a command that works."""
    user_first: bool = False
    """An unauthorized user gets that error before its fields are parsed, as from the real server."""
    help: str = ""
    """One line for listCommands; for a command that refuses, the reason."""

    def command(self, run: Run, *exceptions: Exceptional) -> Command:
        """Return the command as one kind of process serves it."""
        traits = {trait.name: getattr(self, trait.name) for trait in fields(Spec)}
        for exception in exceptions:
            traits = exception.applied(traits)
        return Command(run=run, spec=self, exceptions=exceptions, **traits)


@dataclass(frozen=True, slots=True)
class Command(Spec):
    """A command with its handler: `Command("ping", run, privilege=PUBLIC, role=Role.ANY, help="...")`.

    `run(context, arguments)` returns the reply's fields or an awaitable of them. If it need not wait, it is a plain
    function, and the request is answered without a task.
    """

    run: Run
    _: KW_ONLY
    spec: Spec | None = field(default=None, repr=False)
    """The spec it was made of; None if it is declared with its handler."""
    exceptions: tuple[Exceptional, ...] = field(default=(), repr=False)
    by_name: Mapping[str, Parameter] = field(init=False, repr=False, compare=False)
    """All parameters by name."""
    required: Mapping[str, Parameter] = field(init=False, repr=False, compare=False)
    """The required parameters by name."""
    names_collection: bool = field(init=False, repr=False, compare=False)
    """True if the field named like the command can be a collection name."""

    def __post_init__(self) -> None:
        by_name = {parameter.name: parameter for parameter in self.parameters}
        assert len(by_name) == len(self.parameters), f"{self.name} declares a parameter twice"
        object.__setattr__(self, "by_name", by_name)
        required = {name: parameter for name, parameter in by_name.items() if parameter.required}
        object.__setattr__(self, "required", required)
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        object.__setattr__(self, "names_collection", Type.COLLECTION in values)
        if self.refuses and not self.help:
            object.__setattr__(self, "help", f"refused: {self.refuses}")

    @property
    def takes_write_concern(self) -> bool:
        return self.role is Role.PRIMARY if self.write_concern is None else self.write_concern


def admin_only_error(command: Command) -> CommandError:
    """Return the error (Unauthorized) for an `admin` command that was sent to another database."""
    return CommandError(Code.Unauthorized, f"{command.name} may only be run against the admin database.")


class CommandTable:
    """The commands of one executable, by every spelling.

    Iteration yields the commands served. `unsupported`: by name, the commands that the executable refuses as not
    implemented (`docstore.commands.specs.unsupported`); another process may serve them.
    """

    def __init__(self, commands: Iterable[Command], *, unsupported: Iterable[Command] = ()) -> None:
        self._by_spelling: dict[str, Command] = {}
        self._by_name: dict[str, Command] = {}
        self.add(commands)
        self.unsupported = {command.name: command for command in unsupported if command.name not in self._by_spelling}

    def find(self, spelling: str) -> Command | None:
        """Return the command of a spelling, served or unsupported; None for an unknown name."""
        return self._by_spelling.get(spelling) or self.unsupported.get(spelling)

    def get(self, spelling: str) -> Command:
        """Return the command of a spelling, served or unsupported. Errors: CommandNotFound."""
        command = self.find(spelling)
        if command is None:
            raise CommandError(Code.CommandNotFound, f"no such command: '{spelling}'")
        return command

    def add(self, commands: Iterable[Command]) -> None:
        """Add commands to serve."""
        for command in commands:
            assert command.name not in self._by_name, f"{command.name} is declared twice"
            self._by_name[command.name] = command
            for spelling in (command.name, *command.aliases):
                assert spelling not in self._by_spelling, f"{spelling} is declared twice"
                self._by_spelling[spelling] = command

    def hide_newer(self, face: Face) -> None:
        """Remove commands newer than the emulated server version."""
        for command in list(self):
            if command.since > face.max_wire_version:
                del self._by_name[command.name]
                for spelling in (command.name, *command.aliases):
                    del self._by_spelling[spelling]

    def __contains__(self, spelling: str) -> bool:
        return spelling in self._by_spelling

    def __iter__(self) -> Iterator[Command]:
        """Yield every command once, sorted by name."""
        return iter(sorted(self._by_name.values(), key=lambda command: command.name))

    def __len__(self) -> int:
        return len(self._by_name)
