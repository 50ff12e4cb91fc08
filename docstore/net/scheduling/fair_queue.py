"""Start-time fair queueing of long work: by user, and within a user by operation.

Each account (a user, and below it an operation) has a virtual time: the seconds of the loop that it has used. The next
waiter is the operation with the least virtual time of the user with the least. An account that was idle restarts at the
queue's virtual time, so idling earns no credit. The queue's time advances with each slice, divided by the number of
waiting accounts. This bounds how long newcomers can overtake a waiter.

Background work (`Owner.user` is None) comes last, but gets one of `BACKGROUND_EVERY` slices while it waits.

No clock, no loop: callers report the time of a slice (`charge`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from docstore.net.scheduling.limits import MAX_IDLE_ACCOUNTS

BACKGROUND_EVERY = 10
"""While background work waits, it gets one of this number of slices."""

Waiter = TypeVar("Waiter")


class Owner(NamedTuple):
    """The account of some work. `user`: its name, None for background work; `operation`: the operation's id."""

    user: Hashable
    operation: int


BACKGROUND = Owner(None, 0)


@dataclass(slots=True)
class _Account(Generic[Waiter]):
    """An operation. `seconds`: its virtual time."""

    seconds: float
    waiters: deque[Waiter]


@dataclass(slots=True)
class _User:
    """A user. `seconds`: its virtual time; `now`: the start time of its operations; `waiting`: its waiting
    operations.
    """

    seconds: float
    now: float = 0.0
    waiting: int = 0


class FairQueue(Generic[Waiter]):
    """Waiters of long work, in the order of their slices."""

    def __init__(self) -> None:
        self._background: deque[Waiter] = deque()
        self._foreground_run = 0
        """Foreground slices since the last background slice."""
        self._length = 0
        self._now = 0.0
        """The virtual time at which users start."""
        self._last = BACKGROUND
        """The owner of the last slice."""
        self._users: dict[Hashable, _User] = {}
        self._operations: dict[Owner, _Account[Waiter]] = {}

    def __len__(self) -> int:
        """Return the number of waiters."""
        return self._length + len(self._background)

    def add(self, owner: Owner, waiter: Waiter) -> None:
        """Put `waiter` in line for its owner's next slice."""
        if owner.user is None:
            self._background.append(waiter)
            return
        account = self._operations.get(owner)
        if account is None:
            self._remove_idle_accounts()
            account = self._operations[owner] = _Account(0.0, deque())
        user = self._users.setdefault(owner.user, _User(0.0))
        # The owner of the last slice keeps its virtual time; others start at the queue's.
        if owner.user != self._last.user:
            user.seconds = max(user.seconds, self._now)
        if owner != self._last:
            account.seconds = max(account.seconds, user.now)
        account.waiters.append(waiter)
        user.waiting += 1
        self._length += 1

    def pop(self) -> tuple[Owner, Waiter]:
        """Return the next waiter and its owner. Errors: IndexError if the queue is empty."""
        if self._background and (not self._length or self._foreground_run >= BACKGROUND_EVERY - 1):
            self._foreground_run = 0
            self._last = BACKGROUND
            return BACKGROUND, self._background.popleft()
        if not self._length:
            raise IndexError("nobody waits")
        waiting = [(owner, account) for owner, account in self._operations.items() if account.waiters]
        owner, account = min(waiting, key=lambda entry: (self._users[entry[0].user].seconds, entry[1].seconds))
        user = self._users[owner.user]
        self._now, user.now = max(self._now, user.seconds), max(user.now, account.seconds)
        user.waiting -= 1
        self._last = owner
        self._length -= 1
        self._foreground_run += 1
        return owner, account.waiters.popleft()

    def charge(self, owner: Owner, seconds: float) -> None:
        """Charge a slice of `seconds` to its owner."""
        account = self._operations.get(owner)
        if account is not None and owner.user is not None:
            user = self._users[owner.user]
            account.seconds += seconds
            user.seconds += seconds
            user.now += seconds / (user.waiting + 1)
            self._now += seconds / (sum(other.waiting > 0 for other in self._users.values() if other is not user) + 1)

    def _remove_idle_accounts(self) -> None:
        if len(self._operations) < self._length + MAX_IDLE_ACCOUNTS:
            return
        self._operations = {owner: account for owner, account in self._operations.items() if account.waiters}
        waiting = {owner.user for owner in self._operations}
        self._users = {name: user for name, user in self._users.items() if name in waiting or user.seconds > self._now}
