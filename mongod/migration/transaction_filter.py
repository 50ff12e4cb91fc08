"""The ownership of a shard as a transaction asks for it.

Always true: what a transaction sees of a collection is all that this shard owns of it, although it reads an earlier
state: a collection of which a chunk has come since is refused, and while it uses one no chunk of it goes. Once it uses
a collection it never waits for who wants that to itself, since that one waits for the transaction: it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.node.shard_filter import Blocked, Hold, Owned, ShardFilter
from docstore.sharding.post_images import PostImages

if TYPE_CHECKING:
    from docstore.kernel.match.predicate import Predicate
    from docstore.sharding.targeting import KeyRanges
    from mongod.migration.shard_filter import RangeShardFilter


class TransactionShardFilter:
    """Implements `docstore.node.shard_filter.ShardFilter`."""

    def __init__(self, below: RangeShardFilter, taken_at: int) -> None:
        self._below = below
        self._taken_at = taken_at
        self._used: set[str] = set()

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        """See the protocol."""
        if namespace not in self._used:
            self._below.statements.check_begin(namespace)
        try:
            owned = self._below.check_version(namespace, shard_version, write=write)
        except Blocked:
            if namespace not in self._used:
                raise
            text = f"{namespace} is about to change, which waits for this transaction"
            raise CommandError(Code.LockTimeout, text) from None
        if shard_version is not None:
            self.check_placed(namespace, self._taken_at)
        self._used.add(namespace)
        return owned

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """See the protocol."""
        self._below.check_placed(namespace, taken_at)

    def post_images(self, namespace: str) -> PostImages | None:
        """See the protocol."""
        return self._below.post_images(namespace)

    def hold(self, namespace: str, within: KeyRanges | None) -> Hold:
        """See the protocol. A transaction never waits for a move that waits for it."""
        below = self._below
        known = below.current(namespace)
        return below.statements.begin(namespace, known, below.shard_name, within, lambda: known)

    def for_transaction(self, taken_at: int) -> ShardFilter:
        """See the protocol."""
        return self._below.for_transaction(taken_at)

    async def known(self, namespace: str) -> Owned | None:
        """See the protocol."""
        return await self._below.known(namespace)

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """See the protocol."""
        return self._below.is_known(namespace, owned)
