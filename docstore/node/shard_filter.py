"""Which documents of a collection a node may serve: the hook of the sharding layer.

A node without one serves everything. Where one is installed, every command that touches documents enters it: with the
shard version that the router sent, or without one when a client talks to the shard directly. Writes enter always, so
that the critical section of a migration can hold them.

The answer is for now: between `check_version` and the commit of a write there is no await, and a read takes its
snapshot before its next await. After every pause a write enters again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from docstore.kernel.match.predicate import Predicate


class Owned(Protocol):
    """What a node owns of a collection by a routing that it has read. `owned`: None where that is everything."""

    @property
    def owned(self) -> Predicate | None: ...


class ShardFilter(Protocol):
    """Implemented by the driver of migrations."""

    def check_version(
        self, namespace: str, shard_version: bytes | None, *, write: bool
    ) -> Predicate | Awaitable[Predicate | None] | None:
        """The filter of the owned ranges, None where everything is owned; an awaitable of it while it must wait.

        Errors: StaleConfig when the version is not the one that the shard has.
        """

    async def known(self, namespace: str) -> Owned | None:
        """What this node owns of a collection, for work that no router has sent; None where that is everything."""

    def is_known(self, namespace: str, owned: Owned | None) -> bool:
        """Whether nothing has been heard since that could have changed it."""
