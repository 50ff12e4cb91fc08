"""The statements of one connection that are under way, each run as a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from docstore.bson import document_to_python
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.errors import Code, CommandError
from docstore.net.connection import outcome_of
from docstore.net.listener import Listener
from docstore.widecolumn.native.client import NativeCall, NativeClient, Statement
from docstore.widecolumn.native.command import message_of
from docstore.widecolumn.native.statements import StatementService
from docstore.widecolumn.protocol.envelopes import Envelope

MAX_CALLS = 128
MAX_CALL_BYTES = 32 * 1024 * 1024


class CallRunner:
    """Runs calls of a client; `ended` hears of each that has its response, or `error`."""

    def __init__(
        self,
        listener: Listener,
        dispatcher: Dispatcher,
        service: StatementService,
        ended: Callable[[NativeCall], None],
    ) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._service = service
        self._ended = ended
        self._clock = dispatcher.services.clock
        self._pending: dict[int, Pending] = {}
        self._call_bytes = 0
        self._calls = 0
        self._last_number = 0

    @property
    def has_room(self) -> bool:
        """True if one more call may begin."""
        return self._calls < MAX_CALLS and self._call_bytes < MAX_CALL_BYTES

    def begin(self, client: NativeClient, envelope: Envelope, request: Statement) -> None:
        """Run a call; one that need not wait has ended when this returns."""
        state = client.state
        call = NativeCall(request, envelope.version, envelope.stream, len(envelope.body), state.keyspace)
        self._last_number = number = self._last_number + 1 & 0x7FFFFFFF
        state.calls[number] = call
        self._calls += 1
        self._call_bytes += call.size
        outcome = self._dispatcher.handle(message_of(call, number, self._service), client)
        if isinstance(outcome, Pending):
            self._pending[number] = outcome
            self._listener.run(self._follow(client, number, call, outcome))
        else:
            self._end(client, number, call, outcome)

    async def _follow(self, client: NativeClient, number: int, call: NativeCall, pending: Pending) -> None:
        outcome: Any = None
        try:
            outcome = await outcome_of(pending, asyncio.get_running_loop(), self._clock)
        finally:
            self._pending.pop(number, None)
            self._end(client, number, call, outcome)

    def _end(self, client: NativeClient, number: int, call: NativeCall, reply: Any) -> None:
        del client.state.calls[number]
        self._calls -= 1
        self._call_bytes -= call.size
        if not isinstance(reply, bytes):
            call.error = CommandError(Code.InterruptedAtShutdown, "interrupted at shutdown")
        elif call.body is None and call.error is None:
            call.error = _error_of(reply)
        elif call.error is None and call.used_keyspace is not None:
            client.state.keyspace = call.used_keyspace
        self._ended(call)

    def kill_all(self, error: CommandError) -> None:
        """End all calls that wait."""
        for pending in list(self._pending.values()):
            pending.operation.kill(error)


def _error_of(reply: bytes) -> CommandError:
    """The error of a command that was not carried out."""
    fields = document_to_python(reply)
    return CommandError(fields.get("code", 0), fields.get("errmsg", "the request was not carried out"))
