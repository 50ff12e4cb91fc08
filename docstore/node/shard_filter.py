"""Which documents of a collection a node may serve: the hook of the sharding layer.

A node without one serves everything. Where one is installed, every command that touches documents asks it: with the
shard version that the router sent, or without one when a client talks to the shard directly. Writes always ask, so
that the critical section of a migration can make them wait.

The answer holds for the moment: between `check_version` and the commit of a write there is no await, and a read takes
its snapshot before its next await. After every pause a write asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from typing import Protocol

from docstore.kernel.match.predicate import Predicate
from docstore.sharding.key import ShardKey
from docstore.sharding.post_images import PostImages
from docstore.sharding.targeting import KeyRanges


class MustWait(Exception):
    """The operation cannot be let in yet: await `over()`, then ask again."""

    def __init__(self, over: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the operation must wait")
        self.over = over


class Blocked(MustWait):
    """It waits for somebody who has the collection to himself."""


class Owned(Protocol):
    """What a node owns of a collection by a routing that it has read. `owned`: None where that is everything."""

    @property
    def owned(self) -> Predicate | None: ...

    @property
    def shard_key(self) -> ShardKey | None:
        """Of a sharded collection of documents."""


class Hold(Protocol):
    """A statement over many documents that runs. `owned`: which of them it is about, as when it began."""

    @property
    def owned(self) -> Predicate | None: ...

    def kept(self) -> bool:
        """Whether this node still owns those, after it was told that the routing it came by is stale.

        Errors: MustWait where that has been forgotten meanwhile.
        """

    def close(self) -> None:
        """It has ended."""


class ShardFilter(Protocol):
    """Implemented by the driver of migrations."""

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        """The filter of the owned ranges, None where everything is owned.

        Errors: MustWait; StaleConfig when the version is not the one that the shard has.
        """

    def check_change(self, namespace: str) -> None:
        """Before the definition of a collection changes. Errors: MustWait while what is written may go on, but what
        there is must stay as it is.
        """

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """What `check_version` has just let in with a version reads the state of the packed timestamp `taken_at`: all
        that this node owns must have been here then. Errors: SnapshotUnavailable.
        """

    def post_images(self, namespace: str) -> PostImages | None:
        """The rules for what a write that `check_version` has just let in with a version may make of documents; None
        where there are none.
        """

    def may_have_orphans(self, namespace: str) -> bool:
        """Whether a move is under way, or behind which not all is deleted, so that more may be stored than is owned."""

    def hold(self, namespace: str, within: KeyRanges | None) -> Hold:
        """A statement over many documents begins, which `check_version` has just let in with a version.

        `within`: the shard keys that it is about; None for all that this node owns. Errors: MustWait.
        """

    def for_transaction(self, taken_at: int, claimed: Set[str]) -> TransactionFilter:
        """The same for a transaction that reads the state of the packed timestamp `taken_at`. `claimed`: the names of
        the collections that it has claimed, more and more of them.
        """

    async def known(self, namespace: str) -> Owned | None:
        """What this node owns of a collection, for work that no router has sent; None where that is everything."""

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """Whether nothing has been heard since that could have changed it."""


class TransactionFilter(ShardFilter, Protocol):
    """What one transaction asks. Its `check_version` also raises SnapshotUnavailable and LockTimeout."""

    def check_use(self, namespace: str) -> None:
        """To be asked before a request of the transaction looks at the collection. Errors: MustWait while others wait
        to have the collection to themselves: they would wait for the transaction then.
        """


def post_images_of(shard_filter: ShardFilter | None, namespace: str, shard_version: bytes | None) -> PostImages | None:
    """The rules for what a write makes of documents, in the step in which it was let in. None for what no router has
    sent.
    """
    return None if shard_filter is None or shard_version is None else shard_filter.post_images(namespace)


_ALL_OWNED = (True, None)
_MUST_WAIT = (False, None)


def enter_at_once(
    shard_filter: ShardFilter | None, namespace: str, shard_version: bytes | None, *, write: bool
) -> tuple[bool, Predicate | None]:
    """(whether an operation may go on without waiting, the filter of what is owned then, None where that is all).

    For operations of a single step; one that must wait is to enter anew. Errors: StaleConfig.
    """
    if shard_filter is None:
        return _ALL_OWNED
    try:
        return True, shard_filter.check_version(namespace, shard_version, write=write)
    except MustWait:
        return _MUST_WAIT
