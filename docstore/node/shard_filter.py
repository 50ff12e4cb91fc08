"""The hook of the sharding layer: which documents of a collection a node may serve.

Without a hook a node serves everything. With one, every command that touches documents asks it, with the router's shard
version or, for direct clients, without. Writes always ask, so that a migration's critical section can block them.

An answer holds until the next await: a write commits and a read takes its snapshot before that. After every pause a
write asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from typing import Protocol

from docstore.kernel.match.predicate import Predicate
from docstore.sharding.key import ShardKey
from docstore.sharding.post_images import PostImages
from docstore.sharding.targeting import KeyRanges


class MustWait(Exception):
    """The operation cannot enter yet: await `wait()`, then enter again."""

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the operation must wait")
        self.wait = wait


class Blocked(MustWait):
    """The operation must wait for an exclusive user of the collection."""


class Owned(Protocol):
    """Owned documents of a collection under one shard version. `owned`: None if the node owns all."""

    @property
    def owned(self) -> Predicate | None: ...

    @property
    def shard_key(self) -> ShardKey | None:
        """The collection's shard key; None if it is unsharded or not of documents."""


class Hold(Protocol):
    """A running statement's claim on its documents. `owned`: the filter of those it covers, as of its start."""

    @property
    def owned(self) -> Predicate | None: ...

    def still_owns(self) -> bool:
        """Return True if this node still owns them, after the statement's shard version became stale.

        Errors: MustWait if the node has to reload its routing first.
        """

    def close(self) -> None:
        """End the claim."""


class ShardFilter(Protocol):
    """The hook; implemented by the driver of migrations."""

    @property
    def shard_name(self) -> str:
        """The name of this shard; empty before a cluster has taken the node in."""

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        """Return the filter of the owned ranges, or None if all are owned.

        Errors: MustWait; StaleConfig if the version is not the shard's.
        """

    def check_change(self, namespace: str) -> None:
        """Check that a collection's definition may change. Errors: MustWait while a migration needs it unchanged.

        Writes of documents may continue during that time.
        """

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """Check that all owned chunks were here at the packed timestamp `taken_at`. Errors: SnapshotUnavailable.

        Call it after `check_version` in the same step.
        """

    def post_images(self, namespace: str) -> PostImages | None:
        """Return the shard key rules for the post-images of a write that has just passed `check_version`.

        None if unsharded.
        """

    def may_have_orphans(self, namespace: str) -> bool:
        """Return True if a migration, or the deletion after one, may have left documents that are not owned."""

    def hold(self, namespace: str, covered_ranges: KeyRanges | None) -> Hold:
        """Begin a statement over many documents that has just passed `check_version`.

        `covered_ranges`: the shard keys that it covers; None: all that this node owns. Errors: MustWait.
        """

    def for_transaction(self, taken_at: int, claimed: Set[str]) -> TransactionFilter:
        """Return the hook of a transaction that reads the state of the packed timestamp `taken_at`.

        `claimed`: the names of the collections that it has claimed; the set grows.
        """

    async def ownership_of(self, namespace: str) -> Owned | None:
        """Return the owned documents of a collection, for internal work without a shard version.

        None if all are owned.
        """

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """Return True if no news since may have changed the result of `ownership_of`."""


class TransactionFilter(ShardFilter, Protocol):
    """The hook as one transaction uses it. Its `check_version` also raises SnapshotUnavailable and LockTimeout."""

    def check_use(self, namespace: str) -> None:
        """Check, before a request of the transaction reads the collection, that no one waits for exclusive use.

        Errors: MustWait; otherwise they would wait for the transaction.
        """


def shard_field(shard_filter: ShardFilter | None) -> dict[str, str]:
    """Return `{shard: name}` for a report of this node; empty if it is no part of a cluster."""
    name = "" if shard_filter is None else shard_filter.shard_name
    return {"shard": name} if name else {}


def post_images_of(shard_filter: ShardFilter | None, namespace: str, shard_version: bytes | None) -> PostImages | None:
    """Return the shard key rules for post-images, in the step that was entered; None without a shard version."""
    return None if shard_filter is None or shard_version is None else shard_filter.post_images(namespace)


_ALL_OWNED = (True, None)
_MUST_WAIT = (False, None)


def enter_at_once(
    shard_filter: ShardFilter | None, namespace: str, shard_version: bytes | None, *, write: bool
) -> tuple[bool, Predicate | None]:
    """Return (True if the operation may enter without waiting, the filter of owned documents, None: all).

    For operations of a single step; one that must wait has to enter again. Errors: StaleConfig.
    """
    if shard_filter is None:
        return _ALL_OWNED
    try:
        return True, shard_filter.check_version(namespace, shard_version, write=write)
    except MustWait:
        return _MUST_WAIT
