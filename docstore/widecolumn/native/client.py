"""A client of the native protocol, and its requests under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.commands.client_connection import ClientConnection
from docstore.errors import CommandError
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.opcodes import Opcode
from docstore.widecolumn.protocol.requests import (
    BatchRequest,
    EventType,
    ExecuteRequest,
    PrepareRequest,
    QueryRequest,
)

Statement = QueryRequest | PrepareRequest | ExecuteRequest | BatchRequest


@dataclass(slots=True)
class NativeCall:
    """A request that is carried out by a command. `keyspace`: the one in use.

    `opcode`, `body`, `warnings`: the response, once there is one; `error` otherwise. `write_type`: as errors have it;
    None for a read. `used_keyspace`: set by USE.
    """

    request: Statement
    version: int
    stream: int
    size: int
    keyspace: str | None
    opcode: Opcode = Opcode.RESULT
    body: bytes | None = None
    warnings: tuple[str, ...] = ()
    error: CommandError | None = None
    write_type: str | None = None
    used_keyspace: str | None = None

    @property
    def level(self) -> Level:
        return Level.ONE if isinstance(self.request, PrepareRequest) else self.request.parameters.level


@dataclass(slots=True)
class ClientState:
    """`calls`: the requests under way, by the numbers in their commands; `events`: those that it has asked for."""

    keyspace: str | None = None
    calls: dict[int, NativeCall] = field(default_factory=dict)
    events: frozenset[EventType] = frozenset()


class NativeClient(ClientConnection):
    """A connection as commands see it."""

    def __init__(
        self, connection_id: int, remote: str, hang_up: Callable[[], None] = lambda: None, *, local: str = ""
    ) -> None:
        super().__init__(connection_id, remote, hang_up, local=local)
        self.state = ClientState()
