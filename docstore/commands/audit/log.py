"""Audit log messages, in the format of MongoDB's manual.

    {atype, ts, uuid, local, remote, users, roles, param, result}

`uuid`: that of the client's connection. `result`: 0 or an error code.

- A message that passes the filter is written before the reply it describes is sent.
- No message contains a password or a proof of one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import bson
from bson.binary import UUID_SUBTYPE, Binary

from docstore.bson import document_to_python, get_field
from docstore.bson.walk import INT32
from docstore.commands.audit.events import EVENTS, FAILURES
from docstore.commands.client_connection import UNIX_SOCKET
from docstore.commands.declaration import Resource
from docstore.commands.parameters import ServerParameter, truth
from docstore.commands.values import NUMBERS, integer_of, truth_of
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.security.names import SYSTEM

if TYPE_CHECKING:
    from docstore.commands.access.identity import Identity
    from docstore.commands.client_connection import ClientConnection
    from docstore.commands.context import Context

_SUCCESS = "auditAuthorizationSuccess"


class AuditLog:
    """`write` takes a message, as BSON. `predicate`: the filter of messages; None: all. `rotate` starts a new log.

    `authorization_success`: successful authorizations are audited too.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        wall_clock: Callable[[], float],
        process: uuid.UUID,
        *,
        predicate: Predicate | None = None,
        rotate: Callable[[], None] = lambda: None,
    ) -> None:
        self._write = write
        self._clock = wall_clock
        self._process = process
        self._predicate = predicate
        self.rotate = rotate
        self.authorization_success = False
        self._ended = False

    def note(
        self, connection: ClientConnection | None, kind: str, parameters: Mapping[str, Any], result: int = 0
    ) -> None:
        """Write an event of that client; None: of the process itself."""
        self._note(connection, None if connection is None else connection.identity, kind, parameters, result)

    def _note(
        self,
        connection: ClientConnection | None,
        identity: Identity | None,
        kind: str,
        parameters: Mapping[str, Any],
        result: int,
    ) -> None:
        if kind == "shutdown":
            if self._ended:
                return
            self._ended = True
        user = None if identity is None else identity.user
        message = bson.encode(
            {
                "atype": kind,
                "ts": datetime.fromtimestamp(self._clock(), UTC),
                "uuid": Binary(self._uuid_of(connection).bytes, UUID_SUBTYPE),
                "local": _SELF if connection is None else _local(connection),
                "remote": _SELF if connection is None else _remote(connection),
                "users": [] if user is None else [user.name.document()],
                "roles": [] if user is None else [role.document() for role in user.roles],
                "param": parameters,
                "result": result,
            }
        )
        if self._predicate is None or self._predicate.matches(message):
            self._write(message)

    def observe(self, context: Context, body: bytes) -> None:
        """Audit a request that was answered with that body."""
        code = _code_of(body)
        command = context.command
        if code == Code.Unauthorized:
            self._authorization(context, code)
        elif self.authorization_success and command.privilege.resource is not Resource.NONE:
            identity = context.identity
            if context.services.access.enabled and identity is not None and identity.user.name != SYSTEM:
                self._authorization(context, 0)
        shape = (EVENTS if code == 0 else FAILURES.get(code, {})).get(command.name)
        if shape is not None:
            kind, parameters = shape(context, body)
            self._note(context.connection, context.identity, kind, parameters, code)

    def client_metadata(self, connection: ClientConnection, metadata: bytes) -> None:
        """Write the metadata of the client's handshake."""
        parameters = {"localEndpoint": _local(connection), "clientMetadata": document_to_python(metadata)}
        self.note(connection, "clientMetadata", parameters)

    def abandoned(self, connection: ClientConnection) -> None:
        """Write that the client has abandoned a conversation in progress, if there is one."""
        conversation = connection.conversation
        if conversation is not None:
            name = conversation.scram.name.document()
            parameters = {**name, "mechanism": conversation.mechanism}
            self.note(connection, "authenticate", parameters, Code.AuthenticationAbandoned)

    def disconnected(self, connection: ClientConnection) -> None:
        """Write that the client has disconnected."""
        self.abandoned(connection)
        if connection.identity is not None:
            users = [connection.identity.user.name.document()]
            self.note(connection, "logout", logout(CLOSED, users, []))

    def parameter(self) -> ServerParameter:
        def assign(value: Any) -> None:
            self.authorization_success = truth(value)

        return ServerParameter(name=_SUCCESS, get=lambda: self.authorization_success, assign=assign)

    def _authorization(self, context: Context, code: int) -> None:
        parameters = {
            "command": context.command.name,
            "ns": context.namespace or context.db,
            "args": document_to_python(context.redacted_request),
        }
        self._note(context.connection, context.identity, "authCheck", parameters, code)

    def _uuid_of(self, connection: ClientConnection | None) -> uuid.UUID:
        return self._process if connection is None else uuid.uuid5(self._process, str(connection.id))


def no_audit_parameter() -> ServerParameter:
    """Return the parameter of a process without an audit log."""

    def refuse(_value: Any) -> None:
        raise CommandError(Code.BadValue, f"{_SUCCESS} needs an audit log: start with --auditDestination")

    return ServerParameter(name=_SUCCESS, get=lambda: False, assign=refuse)


CLOSED = "Implicit logout due to client connection closure"


def logout(reason: str, before: list[dict[str, str]], after: list[dict[str, str]]) -> dict[str, Any]:
    """Return the parameters of a logout event: the users before and after it."""
    return {"reason": reason, "initialUsers": before, "updatedUsers": after}


_SELF = {"isSystemUser": True}


def _local(connection: ClientConnection) -> dict[str, Any]:
    return {"unix": connection.local} if connection.remote == UNIX_SOCKET else _endpoint(connection.local)


def _remote(connection: ClientConnection) -> dict[str, Any]:
    return {"unix": connection.local} if connection.remote == UNIX_SOCKET else _endpoint(connection.remote)


def _endpoint(address: str) -> dict[str, Any]:
    """Return one side of a connection, from its "host:port"."""
    host, _, port = address.rpartition(":")
    return {"ip": host.strip("[]"), "port": int(port) if port.isdecimal() else 0}


def _code_of(body: bytes) -> int:
    """Return the code of a reply's error; 0 for a success."""
    ok = get_field(body, "ok")
    if ok is None or (ok[0] in NUMBERS and truth_of(*ok)):
        return 0
    code = get_field(body, "code")
    return integer_of(*code) if code is not None and code[0] == INT32 else int(Code.InternalError)
