"""Periodic tasks of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docstore.node.upkeep.periodic import PeriodicTask

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts


class ShardTask(PeriodicTask):
    """A periodic task of a shard. `seconds`: from the end of a pass to the next."""

    seconds: ClassVar[float] = 5.0

    def __init__(self, shard: ShardParts) -> None:
        super().__init__(shard.node)
        self._shard = shard

    def interval(self) -> float:
        return self.seconds
