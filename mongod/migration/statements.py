"""Statements over many documents while they run on a shard, and the migrations that wait for them.

A statement over many documents scans them in slices, and a router relies on each being read once. Invariants:

- the ranges that the shard owned when a statement began (or the part that the router asks for) stay until it ends. No
  chunk of the collection leaves before, nor does its database. A version that rises because a chunk arrived does not
  end the statement;
- a migration that is ready waits until the running statements have ended, and statements that arrive meanwhile wait
  for the migration: neither starves the other. For a while they also wait for a migration that cannot catch up with
  the writes. Writes of single documents wait for neither;
- an open transaction counts as a statement over many documents on every collection that it uses. It may go on using
  them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Protocol

from docstore.collection.transaction.claims import Claims
from docstore.errors import Code, CommandError
from docstore.kernel.match.path_predicates import Ranges
from docstore.kernel.match.predicate import Always, Predicate
from docstore.node.shard_filter import MustWait
from docstore.sharding.routing import Routing
from docstore.sharding.targeting import KeyRanges, intersection

STATEMENT_SECONDS = 10.0
"""The maximal wait of a ready migration for running statements, and of statements for a migration that is not ready."""
_CATCH_UP_SECONDS = 0.5
"""The time that a migration tries to catch up before new statements wait."""
_LOOK_SECONDS = 0.1


class OwnershipMetadata(Protocol):
    """A shard's knowledge of its own part of a collection."""

    @property
    def routing(self) -> Routing: ...

    @property
    def owned(self) -> Predicate | None: ...


class Hold:
    """One statement. Implements `docstore.node.shard_filter.Hold`."""

    def __init__(
        self, metadata: OwnershipMetadata, shard: str, covered_ranges: KeyRanges | None, *,
        now: Callable[[], OwnershipMetadata], ended: Callable[[Hold], None],
    ) -> None:  # fmt: skip
        self.owned = metadata.owned
        self._begun = metadata
        self._shard = shard
        self._covered_ranges = covered_ranges
        self._now = now
        self._ended = ended
        collection = metadata.routing.collection
        if collection is not None and covered_ranges is not None:
            ranges = intersection(collection.chunks.owned(shard), covered_ranges)
            self.owned = Ranges(collection.key.pattern, ranges) if ranges else Always(False)

    def still_owns(self) -> bool:
        """True if the shard still owns the statement's ranges. Errors: MustWait if the shard does not know at
        present.
        """
        now = self._now()
        if now.owned is None:
            return True
        before, after = self._begun.routing.collection, now.routing.collection
        if before is None or after is None or before.epoch != after.epoch:
            return False
        mine: KeyRanges = before.chunks.owned(self._shard)
        if self._covered_ranges is not None:
            mine = intersection(mine, self._covered_ranges)
        return _covers(after.chunks.owned(self._shard), mine)

    def close(self) -> None:
        """End the statement. Idempotent."""
        self._ended(self)


def _covers(owned: KeyRanges, ranges: KeyRanges) -> bool:
    """True if each of the wanted ranges lies in one that is owned; neighbours are joined in both."""
    lows = [low for low, _ in owned]
    for low, high in ranges:
        index = bisect_right(lows, low) - 1
        if index < 0 or owned[index][1] < high:
            return False
    return True


class Scope(Protocol):
    """The scope of a migration that waits for statements: a `Migration` or a `DatabaseMigration`."""

    @property
    def namespace(self) -> str:
        """A collection or a database; at most one migration at a time has it."""

    def concerns(self, namespace: str) -> bool: ...


class RunningStatements:
    """The running statements of one shard. `claims`: those of its open transactions."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._holds: dict[str, set[Hold]] = {}
        self._gates: dict[str, tuple[Scope, asyncio.Event]] = {}
        self._changed = asyncio.Event()

    def check_begin(self, namespace: str, used: Collection[str] = ()) -> None:
        """Raise MustWait while a migration waits for statements. `used`: the collections that a transaction uses
        already, for which it does not wait.
        """
        for scope, gate in self._gates.values():
            if scope.concerns(namespace) and not any(map(scope.concerns, used)):
                raise MustWait(partial(_opened, gate))

    def gated(self, namespace: str) -> bool:
        """True if a migration of the collection, or of its database, waits for the running statements."""
        return any(scope.concerns(namespace) for scope, _ in self._gates.values())

    def begin(
        self,
        namespace: str,
        metadata: OwnershipMetadata,
        shard: str,
        covered_ranges: KeyRanges | None,
        now: Callable[[], OwnershipMetadata],
    ) -> Hold:
        """Register a statement, in the step in which it was admitted. `now`: returns the shard's current knowledge,
        or raises MustWait if that was forgotten.
        """
        holds = self._holds.setdefault(namespace, set())

        def ended(hold: Hold) -> None:
            holds.discard(hold)
            if not holds and self._holds.get(namespace) is holds:
                del self._holds[namespace]
                self._changed.set()
                self._changed = asyncio.Event()

        hold = Hold(metadata, shard, covered_ranges, now=now, ended=ended)
        holds.add(hold)
        return hold

    def hold_back(self, scope: Scope) -> None:
        """Admit no further statement of the scope."""
        self._gates.setdefault(scope.namespace, (scope, asyncio.Event()))

    def running(self, scope: Scope) -> Callable[[], Awaitable[Any]] | None:
        """Return a function to await the end of a running statement; None if none runs."""
        if any(map(scope.concerns, self._holds)):
            return self._changed.wait
        transaction = self._claims.holder_of_any(scope.concerns)
        return None if transaction is None else transaction.over

    async def ended(self, scope: Scope, seconds: float) -> bool:
        """Wait at most that long for the running statements; return whether all have ended."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (wait := self.running(scope)) is not None:
            task = asyncio.ensure_future(wait())
            remaining = end - loop.time()
            if remaining <= 0:
                task.cancel()
                return False
            try:
                await asyncio.wait_for(task, remaining)
            except TimeoutError:
                return False
        return True

    def let_begin(self, scope: Scope) -> None:
        """Admit statements again: the migration has gone on, or was aborted."""
        gate = self._gates.pop(scope.namespace, None)
        if gate is not None:
            gate[1].set()


async def _opened(gate: asyncio.Event) -> None:
    await gate.wait()


class MovesTurn:
    """Decides when one migration may have its scope to itself, except for writes of single documents."""

    def __init__(self, statements: RunningStatements, scope: Scope) -> None:
        self._statements = statements
        self._scope = scope
        self._since: float | None = None
        self._waiting_since: float | None = None
        self._holds_back = False

    async def comes(self, *, is_ready: bool) -> bool:
        """Return whether it is the migration's turn. `is_ready`: few changes remain to be sent, so it is ready.

        Errors: LockTimeout if it has waited too long for running statements.
        """
        now = asyncio.get_running_loop().time()
        if is_ready:
            self._waiting_since = now if self._waiting_since is None else self._waiting_since
            self._hold_back()
            if await self._statements.ended(self._scope, _LOOK_SECONDS):
                return True
            if now > self._waiting_since + STATEMENT_SECONDS:
                raise CommandError(Code.LockTimeout, "a statement over many documents runs longer than a move waits")
            return False
        self._since = now if self._since is None else self._since
        if now > self._since + STATEMENT_SECONDS:
            # It is other writes that it does not catch up with.
            self.end()
            self._since = now
        elif now > self._since + _CATCH_UP_SECONDS:
            self._hold_back()
        return False

    def _hold_back(self) -> None:
        self._holds_back = True
        self._statements.hold_back(self._scope)

    def check(self) -> None:
        """Check again, in the step in which the migration takes its scope, that it still has its turn. Errors:
        LockTimeout if a transaction has returned to a collection that it used before.
        """
        if self._statements.running(self._scope) is not None:
            raise CommandError(Code.LockTimeout, "a transaction has just gone on")

    def end(self) -> None:
        """End the turn: the migration has gone on, or was aborted. Idempotent, because the next migration may have
        its turn by now.
        """
        if self._holds_back:
            self._holds_back = False
            self._statements.let_begin(self._scope)
