"""A dispatcher over hand-made commands, with a clock that only tests move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.commands.client_connection import ClientConnection
from docstore.commands.concerns import ReadPreference
from docstore.commands.context import Services
from docstore.commands.cursors import CursorRegistry
from docstore.commands.declaration import PUBLIC, Command, CommandTable, Role
from docstore.commands.dispatch import Dispatcher
from docstore.commands.gossip import EncodedGossip, encode_gossip
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.sessions.registry import ClientSessions
from docstore.commands.specs.unsupported import unsupported
from docstore.errors import CommandError
from docstore.wire.message import Message


class ManualClock:
    """Seconds that pass only when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeHost:
    """A node that refuses what the test wants refused."""

    def __init__(self) -> None:
        self.write_error: CommandError | None = None
        self.read_error: CommandError | None = None
        self.times: Mapping[str, Any] = {}
        self.observed: list[int] = []
        self.process_id = ObjectId()
        self.counter = 0

    def check_write(self) -> None:
        if self.write_error is not None:
            raise self.write_error

    def check_read(self, read_preference: ReadPreference) -> None:
        if self.read_error is not None and not read_preference.secondary_ok:
            raise self.read_error

    def gossip(self) -> EncodedGossip:
        return encode_gossip(self.times)

    def observe_cluster_time(self, time: int) -> None:
        self.observed.append(time)

    def state_version(self) -> Mapping[str, Any]:
        return {"processId": self.process_id, "counter": Int64(self.counter)}


def services_of(commands: Iterable[Command], *, host: FakeHost | None = None, clock: Any = None) -> Services:
    """Registries with predictable ids, on one clock."""
    clock = clock or ManualClock()
    ids = count(1)
    return Services(
        table=CommandTable(commands, unsupported=(unsupported("mapReduceOld", PUBLIC, "it is gone"),)),
        host=host or FakeHost(),
        sessions=ClientSessions(clock, lambda: next(ids).to_bytes(16, "big")),
        cursors=CursorRegistry(clock, lambda: next(ids)),
        operations=OperationRegistry(clock),
        clock=clock,
        wall_clock=clock,
    )


def dispatcher_of(*commands: Command, host: FakeHost | None = None, clock: Any = None, **options: Any) -> Dispatcher:
    """A dispatcher that serves these commands."""
    return Dispatcher(services_of(commands, host=host, clock=clock), **options)


def command(name: str, run: Any = lambda context, arguments: {}, **traits: Any) -> Command:
    """A command that anyone may call anywhere, unless told otherwise."""
    return Command(name, run, **{"privilege": PUBLIC, "role": Role.ANY, **traits})


def request(body: Mapping[str, Any], *, flags: int = 0, db: str = "test", **sequences: list[bytes]) -> Message:
    """An OP_MSG request with `$db`."""
    return Message(1, 0, bson.encode({**body, "$db": db}), sequences, flags)


def peer() -> ClientConnection:
    return ClientConnection(1, "127.0.0.1:5000")


def ask(dispatcher: Dispatcher, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The decoded reply of a command that answers at once."""
    reply = dispatcher.handle(request(body, **options), peer())
    assert isinstance(reply, bytes)
    return bson.decode(reply)
