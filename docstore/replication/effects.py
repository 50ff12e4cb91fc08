"""Effects of the core, in the order in which the driver must perform them.

A `Persist` must be durable before any later `Send` or `Reply` of the same list or of later lists. `EffectQueue`
enforces this for every driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docstore.errors import CommandError
from docstore.replication.config import ReplicaSetConfig
from docstore.replication.messages import LastVote, Request, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Make the vote or the configuration durable (fsync) before the next effect."""

    vote: LastVote | None = None
    config: ReplicaSetConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a request and report the outcome as `Answered`; after `timeout` seconds without an answer it has failed."""

    to: str
    request: Request
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply to the request or command with this `token`; a `CommandError` rejects it."""

    token: int
    result: Any | CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Fetch the oplog from `source`, or from no member. An earlier fetch ends."""

    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Stop fetching, apply all fetched entries, then report `Drained(term)`."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomePrimary:
    """Write the first entry of `term` to the oplog, then report `BecamePrimary(term)`; skip it if the term is over."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedDown:
    """The member is no longer primary: end operations that need a primary, and wake waiters for acknowledgement."""

    term: Term
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log line: a change and its reason, once. `component`: that of the log; `message`: a constant text."""

    component: str
    message: str
    attributes: Mapping[str, Any]


def log(component: str, message: str, /, **attributes: Any) -> Log:
    return Log(component=component, message=message, attributes=attributes)


Effect = Persist | Send | Reply | Follow | Drain | BecomePrimary | SteppedDown | Log
Effects = list[Effect]


class EffectQueue:
    """Pending effects. Between `hold` and `release` it returns none.

    A driver holds the queue after writing a `Persist`, and releases it when that is on disk.
    """

    def __init__(self) -> None:
        self._waiting: deque[Effect] = deque()
        self._held = False

    def add(self, effects: Iterable[Effect]) -> None:
        self._waiting.extend(effects)

    def next(self) -> Effect | None:
        """Remove and return the next effect; None if there is none, or the queue is held."""
        return self._waiting.popleft() if self._waiting and not self._held else None

    def hold(self) -> None:
        assert not self._held, "one Persist at a time"
        self._held = True

    def release(self) -> None:
        assert self._held, "something was written"
        self._held = False
