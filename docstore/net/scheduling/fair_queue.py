"""Start-time fair queueing of long work: by user, and within a user by operation.

Each account (a user, and below it an operation) has a virtual time: the seconds of the loop that it has used. The queue
gives out the waiter of the user with the least, and of this user the operation with the least. An account that comes
back after it had nothing to do starts at the virtual time of the queue, so waiting saves up nothing. That time goes on
by each slice, divided by the accounts that want one: whoever waits is overtaken by newcomers no longer than until then.

Background work (`Owner.user` is None) comes after all other, but has one of `BACKGROUND_EVERY` slices while
it waits.

No clock, no loop: callers say what a slice took (`charge`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

BACKGROUND_EVERY = 10
"""One slice of so many is for background work while that waits."""
_MAX_IDLE_ACCOUNTS = 64
"""Accounts without waiters that are kept before those that say nothing any more are removed."""

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
    """`seconds`: its virtual time; `now`: that at which its operations begin; `waiting`: how many of these wait."""

    seconds: float
    now: float = 0.0
    waiting: int = 0


class FairQueue(Generic[Waiter]):
    """Waiters of long work in the order in which they get the loop."""

    def __init__(self) -> None:
        self._background: deque[Waiter] = deque()
        self._foreground_run = 0
        """Slices of the foreground since background work had one."""
        self._length = 0
        self._now = 0.0
        """The virtual time at which users begin."""
        self._last = BACKGROUND
        """Who had the last slice."""
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
        # Who has just had a slice comes back with what it has used, others begin at the time of the queue.
        if owner.user != self._last.user:
            user.seconds = max(user.seconds, self._now)
        if owner != self._last:
            account.seconds = max(account.seconds, user.now)
        account.waiters.append(waiter)
        user.waiting += 1
        self._length += 1

    def pop(self) -> tuple[Owner, Waiter]:
        """Return the next waiter and its owner. Errors: IndexError where nobody waits."""
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
        """Count a slice of `seconds` for its owner."""
        account = self._operations.get(owner)
        if account is not None and owner.user is not None:
            user = self._users[owner.user]
            account.seconds += seconds
            user.seconds += seconds
            user.now += seconds / (user.waiting + 1)
            self._now += seconds / (sum(other.waiting > 0 for other in self._users.values() if other is not user) + 1)

    def _remove_idle_accounts(self) -> None:
        if len(self._operations) < self._length + _MAX_IDLE_ACCOUNTS:
            return
        self._operations = {owner: account for owner, account in self._operations.items() if account.waiters}
        waiting = {owner.user for owner in self._operations}
        self._users = {name: user for name, user in self._users.items() if name in waiting or user.seconds > self._now}
