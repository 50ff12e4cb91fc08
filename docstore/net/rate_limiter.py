"""Rate limiter of new connections: a token bucket, and a queue for connections that find it empty.

It is off until `ingressConnectionEstablishmentRateLimiterEnabled` is set.

- The queue is FIFO. At most `max_queued` connections wait; further ones are refused.
- Nothing that a queued connection sends is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Protocol

from docstore.commands.parameters import ServerParameter, truth, whole_number
from docstore.errors import Code, CommandError
from docstore.query.value.values import INT_MAX

_PREFIX = "ingressConnectionEstablishment"


class Admission(Enum):
    """The decision on an accepted connection."""

    ADMITTED = auto()
    QUEUED = auto()
    REFUSED = auto()


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None: ...


class TokenBucket:
    """Tokens refilled at a rate, up to the amount of `burst_seconds`; a change of either fills it. Times are in
    seconds.
    """

    def __init__(self) -> None:
        self.per_second = INT_MAX
        self.burst_seconds = sys.float_info.max
        self._tokens = self._capacity
        self._filled_at = 0.0

    @property
    def _capacity(self) -> float:
        return max(self.per_second * self.burst_seconds, 1.0)

    def configure(self, per_second: int, burst_seconds: float) -> None:
        self.per_second = per_second
        self.burst_seconds = burst_seconds
        self._tokens = self._capacity

    def tokens(self, now: float) -> float:
        """Refill the bucket and return the number of tokens."""
        self._tokens = min(self._capacity, self._tokens + max(now - self._filled_at, 0.0) * self.per_second)
        self._filled_at = now
        return self._tokens

    def take(self, now: float) -> bool:
        """Take a token; True if there was one."""
        if self.tokens(now) < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def wait_seconds(self, now: float) -> float:
        """Return the seconds until there is a token."""
        return max(1.0 - self.tokens(now), 0.0) / self.per_second


@dataclass(slots=True)
class Counts:
    """Connection counts while the limiter was on. `queued_seconds`: the total waiting time."""

    admitted: int = 0
    exempted: int = 0
    refused: int = 0
    queued: int = 0
    ended_in_queue: int = 0
    """Queued connections that ended before their turn."""
    queued_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    admit: Callable[[], None]
    since: float


class RateLimiter:
    """The limiter of one listener. `clock`: monotonic seconds; `later(seconds, action)` schedules a call."""

    def __init__(self, clock: Callable[[], float], later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._clock = clock
        self._later = later
        self._enabled = False
        self._max_queued = 0
        self._bucket = TokenBucket()
        self._exempt: tuple[IPv4Network | IPv6Network, ...] = ()
        self._exempt_ranges: list[str] = []
        self._queue: dict[object, _Waiting] = {}
        self._timer: Timer | None = None
        self._counts = Counts()

    def ask(self, connection: object, remote: str, admit: Callable[[], None]) -> Admission:
        """Admit, queue or refuse a connection. `remote`: "host:port" of its client.

        `admit` is called when a queued connection is admitted.
        """
        if not self._enabled:
            return Admission.ADMITTED
        if self._exempts(remote):
            self._counts.exempted += 1
            return Admission.ADMITTED
        now = self._clock()
        if not self._queue and self._bucket.take(now):
            self._counts.admitted += 1
            return Admission.ADMITTED
        if len(self._queue) >= self._max_queued:
            self._counts.refused += 1
            return Admission.REFUSED
        self._counts.queued += 1
        self._queue[connection] = _Waiting(admit, now)
        self._wait()
        return Admission.QUEUED

    def leave(self, connection: object) -> None:
        """Remove a connection that has ended."""
        if self._queue.pop(connection, None) is not None:
            self._counts.ended_in_queue += 1

    def close(self) -> None:
        """Stop admitting queued connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def connections_document(self) -> dict[str, Any]:
        """Return the limiter's fields in `connections` of serverStatus."""
        counts = self._counts
        return {
            "queuedForEstablishment": len(self._queue),
            "establishmentRateLimit": {
                "rejected": counts.refused,
                "exempted": counts.exempted,
                "interruptedDueToClientDisconnect": counts.ended_in_queue,
            },
        }

    def queue_document(self) -> dict[str, Any]:
        """Return `queues.ingressSessionEstablishment` of serverStatus."""
        counts = self._counts
        ended = counts.queued - len(self._queue)
        return {
            "addedToQueue": counts.queued,
            "removedFromQueue": ended,
            "interruptedInQueue": counts.ended_in_queue,
            "rejectedAdmissions": counts.refused,
            "exemptedAdmissions": counts.exempted,
            "successfulAdmissions": counts.admitted,
            "attemptedAdmissions": counts.admitted + counts.refused + counts.ended_in_queue + len(self._queue),
            "averageTimeQueuedMicros": counts.queued_seconds * 1e6 / max(ended - counts.ended_in_queue, 1),
            "totalAvailableTokens": min(self._bucket.tokens(self._clock()), float(INT_MAX)),
        }

    def parameters(self) -> tuple[ServerParameter, ...]:
        return (
            ServerParameter(name=f"{_PREFIX}RateLimiterEnabled", get=lambda: self._enabled, assign=self._put_enabled),
            ServerParameter(name=f"{_PREFIX}RatePerSec", get=lambda: self._bucket.per_second, assign=self._put_rate),
            ServerParameter(
                name=f"{_PREFIX}BurstCapacitySecs", get=lambda: self._bucket.burst_seconds, assign=self._put_burst
            ),
            ServerParameter(name=f"{_PREFIX}MaxQueueDepth", get=lambda: self._max_queued, assign=self._put_depth),
            ServerParameter(
                name=f"{_PREFIX}RateLimiterBypass", get=lambda: {"ranges": self._exempt_ranges}, assign=self._put_exempt
            ),
        )

    def _exempts(self, remote: str) -> bool:
        if not self._exempt:
            return False
        try:
            address = ip_address(remote.rpartition(":")[0])
        except ValueError:
            return False
        return any(address in network for network in self._exempt)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self._later(self._bucket.wait_seconds(self._clock()), self._admit_waiting)

    def _admit_waiting(self) -> None:
        """Admit as many queued connections as there are tokens; all, if the limiter is off."""
        self._timer = None
        now = self._clock()
        while self._queue and (not self._enabled or self._bucket.take(now)):
            waiting = self._queue.pop(next(iter(self._queue)))
            self._counts.admitted += 1
            self._counts.queued_seconds += now - waiting.since
            waiting.admit()
        if self._queue:
            self._wait()

    def _changed(self) -> None:
        self.close()
        self._admit_waiting()

    def _put_enabled(self, value: Any) -> None:
        self._enabled = truth(value)
        self._changed()

    def _put_rate(self, value: Any) -> None:
        name = f"{_PREFIX}RatePerSec"
        self._bucket.configure(_at_least(name, whole_number(name, value), 1), self._bucket.burst_seconds)
        self._changed()

    def _put_burst(self, value: Any) -> None:
        name = f"{_PREFIX}BurstCapacitySecs"
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            raise CommandError(Code.BadValue, f"Failed validating {name}: it takes a number") from None
        if not seconds > 0:
            raise CommandError(Code.BadValue, f"Invalid value for parameter {name}: {seconds:g} is not greater than 0")
        self._bucket.configure(self._bucket.per_second, min(seconds, sys.float_info.max))
        self._changed()

    def _put_depth(self, value: Any) -> None:
        name = f"{_PREFIX}MaxQueueDepth"
        self._max_queued = _at_least(name, whole_number(name, value), 0)

    def _put_exempt(self, value: Any) -> None:
        name = f"{_PREFIX}RateLimiterBypass"
        ranges = value.get("ranges") if isinstance(value, Mapping) and set(value) <= {"ranges"} else None
        if not isinstance(ranges, list) or not all(isinstance(address_range, str) for address_range in ranges):
            raise CommandError(Code.BadValue, f"{name} takes {{ranges: [addresses, or ranges of them]}}")
        try:
            exempt = tuple(ip_network(address_range, strict=False) for address_range in ranges)
        except ValueError as error:
            raise CommandError(Code.BadValue, f"Invalid value for parameter {name}: {error}") from None
        self._exempt, self._exempt_ranges = exempt, list(ranges)


def _at_least(name: str, number: int, least: int) -> int:
    """Return the number. Errors: BadValue below `least`."""
    if not least <= number <= INT_MAX:
        raise CommandError(
            Code.BadValue,
            f"Invalid value for parameter {name}: {number} is not between {least} and {INT_MAX}",
        )
    return number
