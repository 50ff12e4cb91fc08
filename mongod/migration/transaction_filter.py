"""The ownership of a shard as a transaction asks for it.

Always true: what a transaction sees of a collection is all that this shard owns of it, although it reads an earlier
state: a collection of which a chunk has come since is refused, and while it uses one no chunk of it goes. Once it uses
a collection, be it that it has only looked it up, it never waits for who wants that to itself, since that one waits for
the transaction: it is refused, or goes on.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.shard_filter import Blocked, Hold, Owned, TransactionFilter
from docstore.sharding.post_images import PostImages

if TYPE_CHECKING:
    from docstore.kernel.match.predicate import Predicate
    from docstore.sharding.targeting import KeyRanges
    from mongod.migration.shard_filter import RangeShardFilter


class TransactionShardFilter:
    """Implements `docstore.node.shard_filter.TransactionFilter`."""

    def __init__(self, below: RangeShardFilter, taken_at: int, claimed: Set[str]) -> None:
        """`claimed`: the collections that the transaction has claimed by now."""
        self._below = below
        self._taken_at = taken_at
        self._claimed = claimed
        self._entered: set[str] = set()

    def check_use(self, namespace: str) -> None:
        """See the protocol."""
        if self._uses(namespace):
            return
        self._below.statements.check_begin(namespace)
        section = self._below.sections.get(namespace) or self._below.handovers.sections.get(namespace)
        if section is not None:
            raise Blocked(section.wait)

    def _uses(self, namespace: str) -> bool:
        return namespace in self._entered or namespace in self._claimed

    def _is_awaited(self, namespace: str) -> bool:
        """Whether who has the collection to himself, or its database, waits for this transaction."""
        if self._uses(namespace):
            return True
        database = split_namespace(namespace)[0]
        used = {*self._entered, *self._claimed}
        return database in self._below.holds.sections and any(split_namespace(each)[0] == database for each in used)

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        """See the protocol."""
        if not self._uses(namespace):
            self._below.statements.check_begin(namespace)
        try:
            owned = self._below.check_version(namespace, shard_version, write=write)
        except Blocked:
            if not self._is_awaited(namespace):
                raise
            text = f"{namespace} is about to change, which waits for this transaction"
            raise CommandError(Code.LockTimeout, text) from None
        if shard_version is not None:
            self.check_placed(namespace, self._taken_at)
        self._entered.add(namespace)
        return owned

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """See the protocol."""
        self._below.check_placed(namespace, taken_at)

    def post_images(self, namespace: str) -> PostImages | None:
        """See the protocol."""
        return self._below.post_images(namespace)

    def may_have_orphans(self, namespace: str) -> bool:
        """See the protocol."""
        return self._below.may_have_orphans(namespace)

    def hold(self, namespace: str, within: KeyRanges | None) -> Hold:
        """See the protocol. A transaction never waits for a move that waits for it."""
        below = self._below
        known = below.current(namespace)
        return below.statements.begin(namespace, known, below.shard_name, within, lambda: known)

    def for_transaction(self, taken_at: int, claimed: Set[str]) -> TransactionFilter:
        """See the protocol."""
        return self._below.for_transaction(taken_at, claimed)

    async def known(self, namespace: str) -> Owned | None:
        """See the protocol."""
        return await self._below.known(namespace)

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """See the protocol."""
        return self._below.is_known(namespace, owned)
