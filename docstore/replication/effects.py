"""What comes out of the core, in the order in which the driver must do it.

The one rule: `Persist` is durable before any later `Send` or `Reply` of the same list, and before those of later lists.
`EffectQueue` keeps it, for every driver.
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
    """Make the vote or the configuration durable (fsync) before going on."""

    vote: LastVote | None = None
    config: ReplicaSetConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send and report the outcome as `Answered`; no answer within `timeout` seconds is a failure."""

    to: str
    request: Request
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to the request or command that came with `token`; a `CommandError` is a refusal."""

    token: int
    result: Any | CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Fetch the log from `source`, or from nobody. Any earlier fetch ends."""

    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Stop fetching, apply what has been fetched, then report `Drained(term)`."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomePrimary:
    """Write the first entry of `term` to the log, then report `BecamePrimary(term)`; skip if the term is over."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedDown:
    """No longer primary: end the operations that only a primary may finish, wake those that wait for
    acknowledgement."""

    term: Term
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A line for the operator: a change and its reason, once. `component` is the log's, the message a constant text."""

    component: str
    message: str
    attributes: Mapping[str, Any]


def log(component: str, message: str, /, **attributes: Any) -> Log:
    return Log(component=component, message=message, attributes=attributes)


Effect = Persist | Send | Reply | Follow | Drain | BecomePrimary | SteppedDown | Log
Effects = list[Effect]


class EffectQueue:
    """The effects that are still to be done. Between `hold` and `release` none comes out: a driver holds the queue when
    it has written a `Persist`, and releases it when that is on disk."""

    def __init__(self) -> None:
        self._waiting: deque[Effect] = deque()
        self._held = False

    def add(self, effects: Iterable[Effect]) -> None:
        self._waiting.extend(effects)

    def next(self) -> Effect | None:
        """The next effect, which leaves the queue; None when there is none, or none may come out yet."""
        return self._waiting.popleft() if self._waiting and not self._held else None

    def hold(self) -> None:
        assert not self._held, "one Persist at a time"
        self._held = True

    def release(self) -> None:
        assert self._held, "something was written"
        self._held = False
