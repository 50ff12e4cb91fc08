"""What a command is: its declaration, the parameters it takes, and the table of an executable's commands.

A `Spec` says everything about a command but what carries it out; a handler makes a `Command` of it. A command that only
one handler serves is declared beside it, as a `Command`; one that several kinds of process serve, each by a handler of
its own, has its spec in `docstore.commands.specs`, and each handler states what it does differently, with the reason
(`Exceptional`). An executable joins commands into one `CommandTable`. Parsing, privileges, listCommands and the
compatibility tables are derived from declarations, so nothing about a command is said twice.

Always true: no two commands of a table share a name or an alias; a name is either served or unsupported, never both;
every parameter of a command is declared, or the command is declared tolerant.
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
"""An encoded document, in pieces where it is large."""

Result = dict[str, Any] | Encoded
"""What a command returns: the reply's fields without `ok`, as a dict or encoded."""
RESULTS = (bytes, dict, DocumentParts)


@overload
def in_one_piece(result: Encoded) -> bytes: ...
@overload
def in_one_piece(result: Result) -> dict[str, Any] | bytes: ...
def in_one_piece(result: Result) -> dict[str, Any] | bytes:
    """The result, a large one put together."""
    return result.document() if isinstance(result, DocumentParts) else result


def encoded(result: Result) -> bytes:
    """The result as one document."""
    whole = in_one_piece(result)
    return whole if isinstance(whole, bytes) else bson.encode(whole)


class Type(Enum):
    """What a field may hold and the Python shape in which `Arguments` gives it.

    Null and undefined count as absent, as in the real server's parser, for every type but ANY, HINT and those that say
    so.
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

    * `type`: one type, or a tuple of those allowed; the value's shape follows the type that matched.
    * `default`: what `Arguments` gives when the field is absent.
    * `minimum`, `maximum`: inclusive bounds of a number (Location51024 outside).
    * `unsupported`: a sentence; the field is known, and refused with NotImplemented when it asks for something
      (anything but false, zero or an empty document, array or string).
    * `distinct`: its value is decoded as a whole, so no document in it may have a field twice (Location40413).
    * `internal`: sent between this project's own processes; left out of what is shown to users.
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
    """Where in a replica set a command may run."""

    PRIMARY = "primary"
    """Writes: only a writable primary (databases other than `local`)."""
    SECONDARY_OK = "secondaryOk"
    """Reads: a primary, or a secondary when the read preference allows it."""
    ANY = "any"
    """Every member in every state."""


class Resource(Enum):
    """What a privilege is held on."""

    COLLECTION = "collection"
    DATABASE = "database"
    CLUSTER = "cluster"
    USER = "user"
    """Needs no privilege, but a user who is authenticated."""
    NONE = "none"
    """Needs no privilege; open before authentication."""


@dataclass(frozen=True, slots=True)
class Privilege:
    """The right to do `action` (MongoDB's privilege action names) on a resource."""

    action: str
    resource: Resource

    def needs(self, db: str, namespace: str) -> tuple[Need, ...]:
        """Return what a request to a database, about a namespace or none, needs by this privilege."""
        if self.resource in (Resource.NONE, Resource.USER):
            return ()
        if self.resource is Resource.CLUSTER:
            return on_cluster(self.action)
        if self.resource is Resource.DATABASE:
            return on_database(db, self.action)
        return on_namespace(namespace or db, self.action)


PUBLIC = Privilege("", Resource.NONE)
"""Of commands that anyone may call, even before authentication."""
AUTHENTICATED = Privilege("", Resource.USER)
"""Of commands that every user may call: about their own sessions, say."""
INTERNAL = Privilege("internal", Resource.CLUSTER)
"""Of commands that only other members of the cluster call."""

Response = Result | Awaitable[Result]
"""What running a command gives: its result, or what to await for it. Nothing else in between is of both kinds."""

Sequences = Mapping[str, list[bytes]]
"""Documents that come beside a request's own, by the name of their parameter."""

Run = Callable[["Context", "Arguments"], Response]

Needs = Callable[["Context", "Arguments"], Iterable[Need]]
"""All that a request needs, for a command of which the declared privilege does not say everything."""


class Exceptional:
    """What one process does differently from a command's spec: `Exceptional("a router has no oplog", retryable=False)`.

    `because`: the reason, for the reader. `parameters` take the place of the spec's by name, or come after them;
    `traits` are other fields of the spec. Every one of them must differ from the spec.
    """

    __slots__ = ("because", "parameters", "traits")

    def __init__(self, because: str, *parameters: Parameter, **traits: Any) -> None:
        assert because, "an exception has a reason"
        self.because = because
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self.traits = traits

    def applied(self, traits: dict[str, Any]) -> dict[str, Any]:
        """A spec's traits with this exception."""
        parameters = {parameter.name: parameter for parameter in traits["parameters"]}
        for name, parameter in self.parameters.items():
            assert parameters.get(name) != parameter, f"{traits['name']}.{name} is no exception"
        for name, trait in self.traits.items():
            assert traits[name] != trait, f"{name} of {traits['name']} is no exception"
        return traits | self.traits | {"parameters": tuple((parameters | self.parameters).values())}


@dataclass(frozen=True, slots=True)
class Spec:
    """What is the same of a command wherever it is served: `Spec("find", privilege=..., role=..., help="...")`."""

    name: str
    _: KW_ONLY
    privilege: Privilege
    role: Role
    aliases: tuple[str, ...] = ()
    """Other spellings, e.g. the lower-case ones of 2012; they mean exactly the same."""
    value: Type | tuple[Type, ...] = Type.ANY
    """What the field named like the command holds; with COLLECTION `Context.namespace` is set."""
    wrong_name: Code = Code.BadValue
    """What a collection name that is no string is refused with."""
    parameters: tuple[Parameter, ...] = ()
    admin_only: bool = False
    tolerant: bool = False
    """Unknown fields are let pass, as the real server does for hello and buildInfo."""
    read_concern: bool = False
    """Takes a readConcern level other than `local`."""
    snapshot_reads: bool = False
    """Takes readConcern level `snapshot`."""
    write_concern: bool | None = None
    """Takes a writeConcern; None: exactly those that need a primary."""
    retryable: bool = False
    """Takes a txnNumber: a retryable write."""
    in_transactions: bool = False
    """May be part of a transaction over many documents."""
    own_deadline: bool = False
    """maxTimeMS is not a limit that the dispatcher enforces (getMore: how long to await data)."""
    pausable: bool = False
    """The evaluation of its expressions may pause: what it has looked at stays as it was."""
    repeatable: bool = False
    """May be begun anew as long as it has not answered: it changes nothing unless it says so (`irrevocable`)."""
    since: int = 0
    """The wire version of the servers that it came with."""
    stable: bool = False
    """Belongs to the Stable API, version 1."""
    following: Callable[[Context, bytes], bytes | None] | None = None
    """For a request that allows exhaust: given the reply's body, the body of the request that the server answers
    next of its own accord; None ends the stream."""
    needs: Needs | None = None
    """What a request needs, where the privilege does not say it all."""
    sensitive: tuple[str, ...] | Callable[[bytes, Sequences], tuple[str, ...]] = ()
    """Fields whose values are shown to nobody: neither in logs and errors nor by currentOp and the profiler. A
    function says which of a request's document and its document sequences.
    """
    wraps_command: bool = False
    """The field named like the command is another command, in which the same values are shown to nobody."""
    refuses: str = ""
    """Why every request is refused; empty for a command that does something."""
    user_first: bool = False
    """A user who may not run the command is told so before its fields are read, as by the real server."""
    help: str = ""
    """One line for listCommands; of a command that refuses, its reason."""

    def command(self, run: Run, *exceptions: Exceptional) -> Command:
        """The command as one kind of process serves it."""
        traits = {each.name: getattr(self, each.name) for each in fields(Spec)}
        for exception in exceptions:
            traits = exception.applied(traits)
        return Command(run=run, spec=self, exceptions=exceptions, **traits)


@dataclass(frozen=True, slots=True)
class Command(Spec):
    """A command with its handler: `Command("ping", run, privilege=PUBLIC, role=Role.ANY, help="...")`.

    `run(context, arguments)` returns the reply's fields or an awaitable of them. It is a plain function when it need
    not wait: then the request is answered without a task.
    """

    run: Run
    _: KW_ONLY
    spec: Spec | None = field(default=None, repr=False)
    """What it was made of; None when it is declared where it is served."""
    exceptions: tuple[Exceptional, ...] = field(default=(), repr=False)
    by_name: Mapping[str, Parameter] = field(init=False, repr=False, compare=False)
    """The parameters by name."""
    required: Mapping[str, Parameter] = field(init=False, repr=False, compare=False)
    """Those that must be given."""
    names_collection: bool = field(init=False, repr=False, compare=False)
    """Whether the field named like the command can be a collection's name."""

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
    """Return the refusal (Unauthorized) of a command of `admin` that was sent to another database."""
    return CommandError(Code.Unauthorized, f"{command.name} may only be run against the admin database.")


class CommandTable:
    """The commands of one executable, by every spelling.

    Iteration gives the commands that are served. `unsupported` holds those that the executable refuses as ones that it
    does not have (`docstore.commands.specs.unsupported`), by name; a process may serve what others refuse.
    """

    def __init__(self, commands: Iterable[Command], *, unsupported: Iterable[Command] = ()) -> None:
        self._by_spelling: dict[str, Command] = {}
        self._by_name: dict[str, Command] = {}
        self.add(commands)
        self.unsupported = {command.name: command for command in unsupported if command.name not in self._by_spelling}

    def find(self, spelling: str) -> Command | None:
        """Return the command of a spelling, also one that is unsupported; None for a name that nobody has."""
        return self._by_spelling.get(spelling) or self.unsupported.get(spelling)

    def get(self, spelling: str) -> Command:
        """Return the command of a spelling, also one that is unsupported. Errors: CommandNotFound."""
        command = self.find(spelling)
        if command is None:
            raise CommandError(Code.CommandNotFound, f"no such command: '{spelling}'")
        return command

    def add(self, commands: Iterable[Command]) -> None:
        """Serve further commands."""
        for command in commands:
            assert command.name not in self._by_name, f"{command.name} is declared twice"
            self._by_name[command.name] = command
            for spelling in (command.name, *command.aliases):
                assert spelling not in self._by_spelling, f"{spelling} is declared twice"
                self._by_spelling[spelling] = command

    def hide_newer(self, face: Face) -> None:
        """Serve what servers have that the process passes for, and nothing that came later."""
        for command in list(self):
            if command.since > face.max_wire_version:
                del self._by_name[command.name]
                for spelling in (command.name, *command.aliases):
                    del self._by_spelling[spelling]

    def __contains__(self, spelling: str) -> bool:
        return spelling in self._by_spelling

    def __iter__(self) -> Iterator[Command]:
        """Every command once, sorted by name."""
        return iter(sorted(self._by_name.values(), key=lambda command: command.name))

    def __len__(self) -> int:
        return len(self._by_name)
