"""A client request whose answer comes by a callback from the connection to another process.

- `ended` is called once with the outcome.
- A killed request is answered at once, regardless of the other process.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.commands.dispatch import Outcome, Pending
from docstore.commands.operations.relay import Relay
from docstore.wire.message import Message

Ended = Callable[[Message, Outcome | Pending], None]
"""Receives the outcome, or the pending command if a task must finish it."""


class RelayedRequest:
    """A started request; `ended` is called later."""

    __slots__ = ("_ended", "_message", "_pending", "_relay")

    def __init__(self, message: Message, pending: Pending, relay: Relay, ended: Ended) -> None:
        self._message = message
        self._pending = pending
        self._relay = relay
        self._ended = ended

    def answered(self, result: bytes | None) -> None:
        """Handle the answer of the other process, as defined by `Relay`."""
        pending = self._pending
        pending.operation.on_kill = None
        self._ended(self._message, pending if result is None else pending.answered(result))

    def killed(self) -> None:
        """End a killed request: its answer is discarded."""
        self._relay.cancel()
        self._ended(self._message, self._pending.given_up())


def begins(message: Message, pending: Pending, ended: Ended) -> bool:
    """Start the relay; False if that needs a wait or a task."""
    relay = pending.relay
    if relay is None or message.compressor is not None or message.operation is not None:
        return False
    operation = pending.operation
    if operation.killed or pending.deadline is not None:
        return False
    request = RelayedRequest(message, pending, relay, ended)
    if not relay.start(request.answered):
        return False
    operation.on_kill = request.killed
    return True
