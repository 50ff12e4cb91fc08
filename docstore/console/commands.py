"""Commands run in process: as a connection's client would send them, with the same checks and the same replies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import bson

from docstore.commands.client_connection import ClientConnection
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.errors import Code, CommandError
from docstore.net.connection import outcome_of
from docstore.wire.errors import ProtocolError
from docstore.wire.message import decode_frame, encode_body

APPLICATION = "console"
"""The application that connections of the console are said to be of."""


class NoCommand(Exception):
    """The document cannot be sent as a command; the message says why."""


class Call:
    """One command of one client. `seconds`: the time limit after which it is killed."""

    def __init__(self, dispatcher: Dispatcher, connection: ClientConnection, seconds: float) -> None:
        self._dispatcher = dispatcher
        self._connection = connection
        self._seconds = seconds
        self._pending: Pending | None = None
        self._given_up: CommandError | None = None

    async def run(self, db: str, command: Mapping[str, Any]) -> bytes:
        """Return the raw reply, also one of an error. Errors: NoCommand."""
        try:
            body = bson.encode({**command, "$db": db})
        except RecursionError:
            raise NoCommand("it is nested too deeply") from None
        except (bson.errors.BSONError, ValueError, TypeError, OverflowError) as error:
            raise NoCommand(str(error)) from None
        return await self.send(body)

    async def send(self, body: bytes) -> bytes:
        """Like `run`, for a raw command with its `$db`."""
        try:
            # Malformed documents get the same error as in a client's message.
            message = decode_frame(encode_body(body, 0, 0, 0))
        except ProtocolError as error:
            raise NoCommand(str(error)) from None
        outcome = self._dispatcher.handle(message, self._connection)
        if isinstance(outcome, Pending):
            outcome = await self._wait(outcome)
        assert isinstance(outcome, bytes), "a request without flags has one reply"
        return outcome

    async def _wait(self, pending: Pending) -> Any:
        clock = self._dispatcher.services.clock
        latest = clock() + self._seconds
        pending.deadline = latest if pending.deadline is None else min(pending.deadline, latest)
        self._pending = pending
        if self._given_up is not None:
            pending.operation.kill(self._given_up)
        # A task of its own, which a kill may cancel: the current task must send the reply.
        task = asyncio.create_task(outcome_of(pending, asyncio.get_running_loop(), clock))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.give_up(CommandError(Code.ClientDisconnect, "the client is gone"))
            await asyncio.wait((task,))
            raise
        finally:
            self._pending = None

    def give_up(self, error: CommandError) -> None:
        """End the command with this error if it is still running."""
        self._given_up = error
        if self._pending is not None:
            self._pending.operation.kill(error)
