"""The reply that shows the default read and write concerns."""

from __future__ import annotations

from typing import Any

from docstore.node.node import DataNode
from docstore.replicaset.standalone import Standalone


def shown_defaults(node: DataNode) -> dict[str, Any]:
    """Return the reply of getDefaultRWConcern and of setDefaultRWConcern; not for a standalone."""
    replication = node.replication
    stored = {} if isinstance(replication, Standalone) else replication.concern_defaults.document
    write = stored.get("defaultWriteConcern")
    if write is None and replication.defaults_to_majority:
        write = {"w": "majority", "wtimeout": 0}
    return {
        "defaultReadConcern": stored.get("defaultReadConcern", {"level": "local"}),
        **({} if write is None else {"defaultWriteConcern": write}),
        **{name: stored[name] for name in ("updateOpTime", "updateWallClockTime") if name in stored},
        "defaultWriteConcernSource": "global" if "defaultWriteConcern" in stored else "implicit",
        "defaultReadConcernSource": "global" if "defaultReadConcern" in stored else "implicit",
        "localUpdateWallClockTime": node.now(),
    }
