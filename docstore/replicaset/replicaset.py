"""Member of a replica set: drives the pure core of `docstore.replication` on real time, sockets and the oplog.

(Signatures first, so that the node can be composed against them.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.bson.optime import OpTime
from docstore.replicaset.flusher import GroupFlusher

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.commands.concerns import ReadConcern, ReadPreference, WriteConcern
    from docstore.net.pool import Pool
    from docstore.storage.engine import Engine, Reader


class ReplicaSet:
    """One member. Compose it with the store, start it before the listener accepts, stop it after the listener
    closed."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: Store,
        pool: Pool,
        set_name: str,
        host: str,
        own_addresses: frozenset[str],
        dbpath: Path,
        oplog_bytes: int,
        config_server: bool = False,
        on_step_down: Callable[[], None],
    ) -> None:
        """`host` is "name:port" as others reach us; `own_addresses` every "name:port" under which we listen;
        `on_step_down` kills the operations that a lost primary may not finish."""
        self.set_name = set_name
        self.flusher: GroupFlusher = GroupFlusher(engine.flush)

    async def start(self) -> None:
        """Read durable state, attach the oplog and begin heartbeats."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Step down if primary (handing over to a caught-up secondary), end all tasks, flush."""
        raise NotImplementedError

    def check_write(self) -> None:
        """NotWritablePrimary (10107) unless this member is the writable primary."""
        raise NotImplementedError

    def check_read(self, read_preference: ReadPreference | None) -> None:
        """NotPrimaryNoSecondaryOk (13435) or NotPrimaryOrSecondary (13436) when the read may not run here."""
        raise NotImplementedError

    def hello(self) -> dict[str, Any]:
        """The set's fields of a hello reply: isWritablePrimary, secondary, setName, hosts, ...; `isreplicaset` before
        initiation. The legacy command renames isWritablePrimary to ismaster."""
        raise NotImplementedError

    def topology_version(self) -> dict[str, Any]:
        """`{processId, counter}`; the counter grows at each change that hello shows."""
        raise NotImplementedError

    async def wait_topology_change(self, counter: int, timeout: float) -> None:
        """Return when the counter is no longer `counter`, or after `timeout` seconds."""
        raise NotImplementedError

    async def wait_oplog(self, after: int, timeout: float) -> None:
        """Return when the oplog has an entry later than the packed timestamp `after`, or after `timeout` seconds.

        Tailing cursors on local.oplog.rs wait here."""
        raise NotImplementedError

    async def wait_write(
        self, optime: OpTime | None, write_concern: WriteConcern, deadline: float | None
    ) -> dict[str, Any] | None:
        """Wait for the concern; a writeConcernError document when it was not met, else None."""
        raise NotImplementedError

    async def reader(
        self, read_concern: ReadConcern | None, deadline: float | None
    ) -> tuple[Reader, Callable[[], None]]:
        """(snapshot for the read concern, call to release it); waits for afterClusterTime."""
        raise NotImplementedError

    def gossip(self) -> dict[str, Any]:
        """`operationTime` and `$clusterTime` for replies."""
        raise NotImplementedError

    def observe_cluster_time(self, document: Mapping[str, Any]) -> None:
        """Take in a `$clusterTime` from a request or reply."""
        raise NotImplementedError
