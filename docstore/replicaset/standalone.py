"""The interface of `ReplicaSet` for a node without a replica set.

A standalone accepts every write and has no oplog, so no optimes, cluster times and retryable writes. It supports the
write concerns that one node can satisfy: `w` up to 1 or "majority", and `j`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.commands.concerns import DEFAULT_WRITE_CONCERN, MAJORITY
from docstore.commands.gossip import NO_GOSSIP, EncodedGossip
from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.replicaset.flusher import GroupFlusher

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.commands.concerns import ReadConcern, ReadPreference, WriteConcern
    from docstore.replicaset.oplog_limits import OplogLimits
    from docstore.replicaset.read.snapshot_leases import SnapshotLeases
    from docstore.storage.engine import Reader


class Standalone:
    """Part of a data node that was started without `--replSet`."""

    set_name: str | None = None
    leases: SnapshotLeases | None = None
    """None: its states have no timestamps."""
    oplog_limits: OplogLimits | None = None

    def __init__(self, store: Store, *, engine_flush: Callable[[], None], snapshot: Callable[[], Any]) -> None:
        self._store = store
        self._snapshot = snapshot
        self._process_id = ObjectId()
        self.flusher = GroupFlusher(engine_flush)

    async def start(self) -> None:
        """Begin the background flush of writes."""
        self._store.watchers.append(self._committed)

    async def stop(self) -> None:
        """Flush and end."""
        if self._committed in self._store.watchers:
            self._store.watchers.remove(self._committed)
        await self.flusher.stop()

    def _committed(self, optime: OpTime | None) -> None:
        self.flusher.touched()

    async def hand_over(self, _seconds: float = 0.0, *, leaving: bool = False) -> None:
        """Do nothing: a standalone does not step down, and clients have no other server."""

    @property
    def defaults_to_majority(self) -> bool:
        """False: a single node is a majority."""
        return False

    @property
    def default_write_concern(self) -> WriteConcern:
        """The write concern of a write that has none."""
        return MAJORITY if self.defaults_to_majority else DEFAULT_WRITE_CONCERN

    def data_bearing_voters(self) -> int:
        """Return 1."""
        return 1

    def check_satisfiable(self, concern: WriteConcern) -> None:
        """Do nothing: `wait_write` rejects concerns that one node cannot satisfy."""

    def check_write(self) -> None:
        """Do nothing: a standalone accepts every write."""

    def check_read(self, read_preference: ReadPreference | None) -> None:
        """Do nothing: a standalone serves every read preference."""

    def hello(self) -> dict[str, Any]:
        """Return the fields by which drivers recognise a standalone."""
        return {"isWritablePrimary": True}

    def topology_version(self) -> dict[str, Any]:
        """Return `{processId, counter}`; a standalone's never changes."""
        return {"processId": self._process_id, "counter": Int64(0)}

    def state_version(self) -> None:
        """Return None: its errors report no change of state."""

    async def wait_topology_change(self, counter: int, timeout: float) -> None:
        """Sleep for `timeout` seconds: the topology never changes."""
        await asyncio.sleep(timeout)

    async def wait_oplog(self, after: int, timeout: float) -> None:
        """Sleep for `timeout` seconds: there is no oplog."""
        await asyncio.sleep(timeout)

    async def wait_write(
        self, optime: OpTime | None, write_concern: WriteConcern, deadline: float | None
    ) -> dict[str, Any] | None:
        """Wait until the node's own disk satisfies the concern.

        Errors: BadValue for a `w` that one node can never reach.
        """
        w = write_concern.w
        if (isinstance(w, int) and w > 1) or not (isinstance(w, int) or w == "majority"):
            raise CommandError(Code.BadValue, "cannot use 'w' > 1 when a host is not replicated")
        if write_concern.j or w == "majority":
            await self.flusher.wait_flushed()
        return None

    async def reader(
        self, read_concern: ReadConcern | None, deadline: float | None
    ) -> tuple[Reader, Callable[[], None]]:
        """Return (a snapshot of the present state, its release function)."""
        snapshot = self._snapshot()
        return snapshot, snapshot.close

    def newest_state(self, read_concern: ReadConcern) -> int | None:
        """Return None: its states have no timestamps."""
        return None

    def gossip(self) -> EncodedGossip:
        """Return no cluster time."""
        return NO_GOSSIP

    def observe_cluster_time(self, time: int) -> None:
        """Do nothing: without an oplog there is no cluster time."""
