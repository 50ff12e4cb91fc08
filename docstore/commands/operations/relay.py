"""An answer that comes later by a call, and is passed on the moment it comes, without a task that waits for it.

Another process gives it, or it is to be given when something happens here.

A command may give a `Relay` where it would give something else to await, and a relay may be awaited as such. A
transport that can take the answer by a call starts it itself, which spares most of what waiting costs.

Always true: what was handed to `start` is called once, and after `start` has returned, unless that said that nothing
was begun, or `cancel` came first. Where it is called with None, a task has to do what is left, by awaiting the relay.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable

from docstore.commands.declaration import Result

Answered = Callable[[bytes | None], None]
"""Takes the answer: the reply's own fields as a document; None where there is more to do."""


class Relay(Awaitable[Result]):
    """One request that is answered so."""

    @abstractmethod
    def start(self, answered: Answered) -> bool:
        """Begin; False where nothing could be begun without waiting: then the relay is to be awaited."""

    @abstractmethod
    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
