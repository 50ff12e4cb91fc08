"""The settings with which a data node starts, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class ClusterRole(Enum):
    """What the node is in a sharded cluster; the value is that of `sharding.clusterRole` in a configuration."""

    NONE = ""
    SHARD = "shardsvr"
    CONFIG = "configsvr"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """How the process was started.

    * `process`: the executable's name. `host`: the name under which members of a set and routers reach the node.
    * `engine`: "rocksdb" or "inMemory"; `cache_bytes` bounds its cache. `oplog_bytes`: where the oplog is cut.
    * `argv`, `parsed`: the command line as typed and as understood, for getCmdLineOpts.
    """

    process: str
    host: str
    port: int
    dbpath: Path
    engine: str = "rocksdb"
    cache_bytes: int = 64 << 20
    set_name: str | None = None
    role: ClusterRole = ClusterRole.NONE
    oplog_bytes: int = 990 * 1024 * 1024
    argv: tuple[str, ...] = ()
    parsed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """ "host:port", as others reach the node."""
        return f"{self.host}:{self.port}"
