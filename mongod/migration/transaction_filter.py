"""The shard filter of a transaction.

Invariants:

- a transaction sees all that this shard owns of a collection, although it reads an earlier state. It may not use a
  collection to which a chunk has come since its snapshot, and no chunk leaves a collection that it uses;
- a transaction waits only briefly for anything that may wait for a transaction. This shard does not know what the
  transaction holds on other shards, so any such wait may be part of a deadlock;
- it fails with LockTimeout after `maxTransactionLockRequestTimeoutMillis` of waiting for a change of definitions, and
  after `MAX_MOVE_WAIT_SECONDS` for a migration;
- a collection that it uses remains usable while a migration waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from functools import partial
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.node.shard_filter import Blocked, Hold, MustWait, Owned, TransactionFilter
from docstore.sharding.post_images import PostImages

if TYPE_CHECKING:
    from docstore.kernel.match.predicate import Predicate
    from docstore.sharding.targeting import KeyRanges
    from mongod.migration.shard_filter import RangeShardFilter


MAX_MOVE_WAIT_SECONDS = 0.5
"""The value of MongoDB's `metadataRefreshInTransactionMaxWaitMS`: a critical section usually ends sooner."""


class TransactionShardFilter:
    """Implements `docstore.node.shard_filter.TransactionFilter`."""

    def __init__(
        self, below: RangeShardFilter, taken_at: int, claimed: Set[str], patience_seconds: Callable[[], float]
    ) -> None:
        """`claimed`: the collections that the transaction has claimed by now. `patience_seconds`: how long it waits for
        a change of definitions.
        """
        self._below = below
        self._taken_at = taken_at
        self._claimed = claimed
        self._patience_seconds = patience_seconds
        self._entered: set[str] = set()

    @property
    def shard_name(self) -> str:
        """See the protocol."""
        return self._below.shard_name

    def check_use(self, namespace: str) -> None:
        """See the protocol."""
        if self._uses(namespace):
            return
        self._check_begin(namespace)
        section = self._below.moving(namespace)
        if section is not None:
            raise self._refused_later(namespace, section.wait)

    def _uses(self, namespace: str) -> bool:
        return namespace in self._entered or namespace in self._claimed

    def _check_begin(self, namespace: str) -> None:
        try:
            self._below.statements.check_begin(namespace, {*self._entered, *self._claimed})
        except MustWait as move:
            raise self._refused_later(namespace, move.wait) from None

    def _refused_later(self, namespace: str, wait: Callable[[], Awaitable[None]]) -> MustWait:
        """Return a wait that raises LockTimeout if `wait` does not end soon."""
        below = self._below
        moves = below.moving(namespace) is not None or below.statements.gated(namespace)
        seconds = MAX_MOVE_WAIT_SECONDS if moves else self._patience_seconds()
        return MustWait(partial(_wait_briefly, wait, seconds, namespace))

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        """See the protocol."""
        if not self._uses(namespace):
            self._check_begin(namespace)
        try:
            owned = self._below.check_version(namespace, shard_version, write=write)
        except Blocked as blocked:
            raise self._refused_later(namespace, blocked.wait) from None
        if shard_version is not None:
            self.check_placed(namespace, self._taken_at)
        self._entered.add(namespace)
        return owned

    def check_change(self, namespace: str) -> None:
        """See the protocol."""
        self._below.check_change(namespace)

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """See the protocol."""
        self._below.check_placed(namespace, taken_at)

    def post_images(self, namespace: str) -> PostImages | None:
        """See the protocol."""
        return self._below.post_images(namespace)

    def may_have_orphans(self, namespace: str) -> bool:
        """See the protocol."""
        return self._below.may_have_orphans(namespace)

    def hold(self, namespace: str, covered_ranges: KeyRanges | None) -> Hold:
        """See the protocol. A transaction never waits for a move that waits for it."""
        below = self._below
        metadata = below.current(namespace)
        return below.statements.begin(namespace, metadata, below.shard_name, covered_ranges, lambda: metadata)

    def for_transaction(self, taken_at: int, claimed: Set[str]) -> TransactionFilter:
        """See the protocol."""
        return self._below.for_transaction(taken_at, claimed)

    async def ownership_of(self, namespace: str) -> Owned | None:
        """See the protocol."""
        return await self._below.ownership_of(namespace)

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """See the protocol."""
        return self._below.is_known(namespace, owned)


async def _wait_briefly(wait: Callable[[], Awaitable[None]], seconds: float, namespace: str) -> None:
    """Wait for `wait`. Errors: LockTimeout if it does not end in that many seconds."""
    waits = asyncio.ensure_future(wait())
    try:
        done, _ = await asyncio.wait([waits], timeout=seconds)
    finally:
        waits.cancel()
    if done:
        return waits.result()
    raise CommandError(Code.LockTimeout, f"Unable to acquire lock on '{namespace}' within {seconds * 1000:g}ms.")
