"""A request of a client connection whose answer comes by a call from the connection to another process.

Always true: the client connection is told once how it ended; a request that is killed is answered at once, whatever the
other process does.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.commands.dispatch import Outcome, Pending
from docstore.commands.operations.relay import Relay
from docstore.wire.message import Message

Ended = Callable[[Message, Outcome | Pending], None]
"""Takes the outcome; the command itself where a task has to do what is left."""


class RelayedRequest:
    """One that has begun; `ended` is called later."""

    __slots__ = ("_ended", "_message", "_pending", "_relay")

    def __init__(self, message: Message, pending: Pending, relay: Relay, ended: Ended) -> None:
        self._message = message
        self._pending = pending
        self._relay = relay
        self._ended = ended

    def answered(self, result: bytes | None) -> None:
        """The other process has answered, as `Relay` says."""
        pending = self._pending
        pending.operation.on_kill = None
        self._ended(self._message, pending if result is None else pending.answered(result))

    def killed(self) -> None:
        """The request was killed: nobody waits for it any more."""
        self._relay.cancel()
        self._ended(self._message, self._pending.given_up())


def begins(message: Message, pending: Pending, ended: Ended) -> bool:
    """Begin to relay, if that can be done without waiting and without a task."""
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
