"""Start settings of a data node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class ClusterRole(Enum):
    """The node's role in a sharded cluster; the values are those of `sharding.clusterRole` in a configuration file."""

    NONE = ""
    SHARD = "shardsvr"
    CONFIG = "configsvr"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of a process.

    * `process`: name of the executable. `host`: the name by which other members and routers reach the node.
    * `engine`: "rocksdb" or "inMemory"; `cache_bytes` bounds its cache. `oplog_bytes`: size at which the oplog is
      truncated.
    * `argv`, `parsed`: the command line as given and as parsed, for getCmdLineOpts.
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
        """Address of the node as "host:port", by which others reach it."""
        return f"{self.host}:{self.port}"
