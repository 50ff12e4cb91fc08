# cython: annotation_typing=False
"""A data node: the parts of a process that stores documents, as its commands see them.

`docstore.node.process.start` creates and ends the parts; commands reach them through `node_of(context)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Any

import cython
from bson.datetime_ms import DatetimeMS

from docstore.collection.store import Store
from docstore.collection.transaction.store import TransactionStore
from docstore.commands.operations.counters import Counters
from docstore.commands.parameters import ParameterTable
from docstore.commands.parts import Parts
from docstore.js.workers import Workers
from docstore.net.listener import NetworkStatistics
from docstore.net.pool import Pool
from docstore.net.scheduling.scheduler import Scheduler
from docstore.node.process.settings import NodeSettings
from docstore.node.remote_outputs import RemoteOutputs
from docstore.node.shard_filter import ShardFilter
from docstore.node.upkeep.profiler import Profiler
from docstore.node.upkeep.ttl_settings import TtlSettings
from docstore.node.users.directory import LocalUsers
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replicaset.standalone import Standalone
from docstore.storage.engine import Engine

if TYPE_CHECKING:
    from docstore.commands.context import Context

Replication = ReplicaSet | Standalone


@dataclass(kw_only=True)
class DataNode:
    """The parts of one process.

    * `clock`: monotonic seconds; `wall_clock`: seconds since 1970; `rng`: numbers in [0, 1).
    * `shard_filter`: installed by a shard.
    * `workers`: JavaScript processes for map-reduces; `evaluators`: JavaScript processes for filters and expressions,
      which map-reduces may contain too.
    * `shutdown` asks the process to end; a member of a set then hands over within `shutdown_seconds`.
    * `network` returns the listener's statistics; `links` returns statistics of outgoing connections by address. `pool`
      connects to other members.
    * `parts`: objects that commands reach: this node and the executable's additions. `status`: the serverStatus
      sections that it adds.
    * `outputs`: temporary collections of running operations.
    * `transaction`: the store, if this is the node as a transaction sees it.
    * `scheduler` slices long work. `users`: the user directory.
    * `check_retryable(lsid, number)`: installed by transactions; rejects a retryable write whose number belongs to one.
    """

    settings: NodeSettings
    engine: Engine
    store: Store
    replication: Replication
    parameters: ParameterTable
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    started: float
    counters: Counters = field(default_factory=Counters)
    expiry: TtlSettings = field(default_factory=TtlSettings)
    shard_filter: ShardFilter | None = None
    workers: Workers | None = None
    evaluators: Workers | None = None
    shutdown: Callable[[], None] = lambda: None
    shutdown_seconds: float = 15.0
    scheduler: Scheduler = field(default_factory=Scheduler)
    rng: Callable[[], float] = random
    network: Callable[[], NetworkStatistics] | None = None
    links: Callable[[], dict[str, dict[str, int]]] = dict
    outputs: set[str] = field(default_factory=set)
    pool: Pool | None = None
    transaction: TransactionStore | None = None
    parts: Parts = field(default_factory=Parts)
    status: dict[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)
    users: LocalUsers = field(init=False)
    profiler: Profiler = field(init=False)
    check_retryable: Callable[[bytes, int], None] = field(init=False)
    _last_timestamp: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.users = LocalUsers(self.store)
        self.profiler = Profiler(self.store, self.clock, self.rng, self.now)
        self.parts[DataNode] = self
        self.parts[RemoteOutputs] = RemoteOutputs(self.store, self.clock)
        if isinstance(self.replication, ReplicaSet):
            self.parts[ReplicaSet] = self.replication

    def pause(self) -> Awaitable[None]:
        """Return the awaitable for long work between two slices."""
        return self.scheduler.pause()

    def now(self) -> DatetimeMS:
        """Return the wall clock as a BSON date."""
        return DatetimeMS(int(self.wall_clock() * 1000))

    def timestamp(self) -> bytes:
        """Return the bytes of a BSON timestamp of now, unique on this node."""
        oplog = self.store.oplog
        if oplog is not None:
            return oplog.next_timestamp().to_bytes(8, "little")
        self._last_timestamp = max(self._last_timestamp + 1, int(self.wall_clock()) << 32 | 1)
        return self._last_timestamp.to_bytes(8, "little")


@cython.ccall
def node_of(context: Context) -> DataNode:
    """Return the node that serves this request."""
    return context.services.parts[DataNode]
