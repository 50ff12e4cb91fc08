"""Relays: answers delivered by a callback and passed on at once, without a waiting task.

The answer comes from another process, or after an event in this one. A command may return a `Relay` as its awaitable. A
transport that supports callbacks starts it itself, which saves most of the cost of waiting.

- The callback given to `start` is called once, after `start` has returned; not if `start` returned False, or after
  `cancel`.
- If it is called with None, a task must finish the work by awaiting the relay.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable

from docstore.commands.declaration import Result

Answered = Callable[[bytes | None], None]
"""Receives the answer: the reply's own fields as a document; None if there is more to do."""


class Relay(Awaitable[Result]):
    """One request answered by a callback."""

    @abstractmethod
    def start(self, answered: Answered) -> bool:
        """Start; False if that is impossible without waiting: await the relay then."""

    @abstractmethod
    def cancel(self) -> None:
        """Discard the answer."""
