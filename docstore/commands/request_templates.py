"""Request templates: fast parsing of requests that resemble an earlier one on their connection.

A driver repeats a command with the same fields in the same order; only a few values differ: a filter, a transaction
number, a cluster time. The other parsed fields are reused, and each differing value is parsed as in
`docstore.commands.envelope`.

- The outcome is that of parsing the whole document. Fields are checked independently, and their order does not matter
  unless one is refused. The few rules that join fields (API version, transactions, concerns) concern fields that must
  be equal here, or whose new value cannot break them.
- In any doubtful case `bind` returns None.
"""

from __future__ import annotations

from typing import NamedTuple

import cython

from docstore.bson import OBJECT, changed_fields, elements, validate
from docstore.commands.arguments import Arguments, convert, take
from docstore.commands.client_connection import ClientConnection, RequestCache
from docstore.commands.concerns import ReadConcern, ReadLevel, parse_read_concern
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.limits import MAX_KIND_TEMPLATES, MAX_REQUEST_DEPTH, MAX_TEMPLATE_BYTES, MAX_TEMPLATE_KINDS
from docstore.commands.sessions.fields import Session, plain_lsid
from docstore.errors import CommandError
from docstore.wire.message import EXHAUST_ALLOWED, Message

_KIND = slice(4, 20)
"""The bytes with the command's name, and part of its value."""
_FREE = frozenset(("$clusterTime", "lsid", "readConcern", "shardVersion", "txnNumber"))
"""Envelope fields whose value may differ. The types are equal, so type checks still hold."""
_PROVENANCE = b"provenance\0"
_OWN = ""
"""Stands for the command's own field if that holds free text, such as a statement."""


class RequestTemplate:
    """A parsed request, as it was before it ran."""

    __slots__ = ("_context", "_documents", "_fields", "_readers", "_taken_as_given", "_timed", "_value", "body")

    def __init__(self, context: Context, arguments: Arguments, names: list[str]) -> None:
        by_name = context.command.by_name
        self.body: bytes = context.raw
        self._context: Context = context.copy()
        # Each request has its own sequences; these may be megabytes, so drop them.
        self._context.sequences = {}
        self._fields = dict(arguments.sent_values())
        self._value = arguments.value
        # By field position: the name of a free field, a parameter's declaration, or None.
        self._readers: list[Parameter | str | None] = [
            name if name in _FREE else by_name.get(name) if position else None for position, name in enumerate(names)
        ]
        if context.command.value is Type.STRING:
            self._readers[0] = _OWN
        # By position, the names of parameters that accept any value, or any document; None for all others.
        self._taken_as_given: list[str | None] = _names_of_free(names, self._readers, Type.ANY)
        self._documents: list[str | None] = _names_of_free(names, self._readers, Type.OBJECT)
        self._timed: _TimedConcern | None = None

    def bind(
        self, request: Message, started: float, changed: list[tuple[int, int, bytes]]
    ) -> tuple[Context, Arguments] | None:
        """Return a context and arguments for a request that differs in these values; None if it must be parsed as a
        whole.
        """
        context = self._context.copy()
        arguments = Arguments(context.command.by_name, self._fields.copy(), self._value)
        if changed:
            if not self._read(changed, context, arguments):
                return None
            context.raw = request.body
        context.started = started
        context.sequences = request.sequences
        context.exhaust = bool(request.flags & EXHAUST_ALLOWED)
        if context.max_time_ms:
            context.deadline = started + context.max_time_ms / 1000
        return context, arguments

    def _read(
        self,
        changed: list[tuple[int, int, bytes]],
        context: Context,
        arguments: Arguments,
    ) -> bool:
        """Apply the differing values; False if one of them needs a full parse."""
        own: list[tuple[Parameter, int, bytes]] = []
        for position, code, data in changed:
            name = self._taken_as_given[position]
            if name is not None:
                arguments.values[name] = (code, data)
                continue
            name = self._documents[position]
            if name is not None and code == OBJECT:
                arguments.values[name] = data
                continue
            reader = self._readers[position]
            if reader is None:
                return False
            if not isinstance(reader, str):
                own.append((reader, code, data))
            elif reader is _OWN:
                arguments.value = convert(context.command.name, Type.STRING, code, data, context.db)
            elif reader == "$clusterTime":
                context.cluster_time = data
            elif reader == "shardVersion":
                context.shard_version = data
            elif reader == "readConcern":
                concern = self._concern_with(context.read_concern, data)
                if concern is None:
                    return False
                context.read_concern = concern
            else:
                session = _session_with(context.session, reader, data, context.connection.session_owner)
                if session is None:
                    return False
                context.session = session
        for parameter, code, data in own:
            take(context.command.name, parameter, code, data, context.db, arguments.values)
        return True

    def _concern_with(self, previous: ReadConcern, data: bytes) -> ReadConcern | None:
        """Return the read concern with another time; None if the request needs a full parse."""
        timed = self._timed
        concern = None if timed is None else timed.read(data)
        if concern is not None:
            return concern
        try:
            concern = parse_read_concern(OBJECT, data)
        except CommandError:
            return None
        if _kind_of(concern) != _kind_of(previous):
            return None
        self._timed = _timed(concern, data)
        return concern


class _TimedConcern(NamedTuple):
    """A read concern with one time, and the encoded bytes around it."""

    level: ReadLevel
    is_after: bool
    prefix: bytes
    suffix: bytes

    def read(self, data: bytes) -> ReadConcern | None:
        """Return the concern with the time in `data`; None if `data` differs in more."""
        _, is_after, prefix, suffix = self
        at = len(prefix)
        if len(data) != at + 8 + len(suffix) or not (data.startswith(prefix) and data.endswith(suffix)):
            return None
        time = int.from_bytes(data[at : at + 8], "little")
        if not time:
            return None  # it is invalid
        return ReadConcern(self.level, time) if is_after else ReadConcern(self.level, None, time)


def _timed(concern: ReadConcern, data: bytes) -> _TimedConcern | None:
    """Return a reader for concerns that differ from this one, encoded in `data`, only in their time; None without a
    time.
    """
    after, at = concern.after_cluster_time, concern.at_cluster_time
    time = at if after is None else after
    if time is None:
        return None
    name = b"\x11atClusterTime\0" if after is None else b"\x11afterClusterTime\0"
    prefix, *suffixes = data.split(name)
    if len(suffixes) != 1 or _PROVENANCE in data:
        # A provenance may contain anything.
        return None
    return _TimedConcern(concern.level, after is not None, prefix + name, suffixes[0][8:])


def _session_with(session: Session | None, name: str, data: bytes, owner: bytes) -> Session | None:
    """Return the session with another id or transaction number; None if the request needs a full parse."""
    if session is None:
        return None
    if name == "lsid":
        lsid = plain_lsid(data, owner)
        return None if lsid is None else Session(lsid, *session[1:])
    # A negative number is invalid.
    return None if data[7] & 0x80 else Session(session.lsid, int.from_bytes(data, "little"), *session[2:])


def _kind_of(concern: ReadConcern) -> tuple[ReadLevel, bool, bool]:
    return concern.level, concern.after_cluster_time is None, concern.at_cluster_time is None


def _names_of_free(names: list[str], readers: list[Parameter | str | None], kind: Type) -> list[str | None]:
    return [
        name if isinstance(reader, Parameter) and _is_free(reader, kind) else None
        for name, reader in zip(names, readers, strict=True)
    ]


def _is_free(parameter: Parameter, kind: Type) -> bool:
    """True if the parameter accepts every value of that type unchanged."""
    bounds = (parameter.unsupported, parameter.minimum, parameter.maximum)
    return parameter.type is kind and bounds == (None, None, None) and not parameter.distinct


def _own_kind(body: bytes) -> bytes:
    """Return the kind of a request whose command field may hold any text: the field's type and name."""
    return body[4 : body.find(b"\0", 5)]


class RequestTemplates(RequestCache):
    """The latest templates of one connection, a few per kind; the kind is a prefix of the document."""

    __slots__ = ("_by_kind",)

    def __init__(self) -> None:
        self._by_kind: dict[bytes, list[RequestTemplate]] = {}

    @cython.ccall
    def bind(self, request: Message, started: cython.double) -> tuple[Context, Arguments] | None:
        """Return a context and arguments from a matching template, with this request's values; None if it needs a full
        parse.
        """
        body = request.body
        template: RequestTemplate
        alike = self._by_kind.get(body[_KIND]) or self._by_kind.get(_own_kind(body))
        if alike is None:
            return None
        for template in alike:
            if template.body == body:
                return template.bind(request, started, [])
        validate(body, MAX_REQUEST_DEPTH)
        for template in alike:
            changed = changed_fields(template.body, body)
            if changed is not None:
                return template.bind(request, started, changed)
        return None

    def keep(self, context: Context, arguments: Arguments) -> None:
        """Remember a fully parsed request that has not run yet."""
        body = context.raw
        if len(body) > MAX_TEMPLATE_BYTES:
            return
        names = [name for name, _, _ in elements(body)]
        if len(set(names)) < len(names):
            # The order decides which of two values of a field counts.
            return
        kind = _own_kind(body) if context.command.value is Type.STRING else body[_KIND]
        alike = self._by_kind.get(kind)
        if alike is None:
            if len(self._by_kind) == MAX_TEMPLATE_KINDS:
                self._by_kind.clear()
            alike = self._by_kind[kind] = []
        # A newer template replaces one with the same fields.
        alike[:] = [template for template in alike if changed_fields(template.body, body) is None][
            1 - MAX_KIND_TEMPLATES :
        ]
        alike.append(RequestTemplate(context, arguments, names))

    def forget(self) -> None:
        """Clear the templates: requests may now have another meaning."""
        self._by_kind.clear()

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))


@cython.ccall
def templates_of(connection: ClientConnection) -> RequestTemplates:
    """Return the connection's templates, creating them at its first request."""
    if connection.opened is None:
        connection.opened = RequestTemplates()
    assert isinstance(connection.opened, RequestTemplates)
    return connection.opened
