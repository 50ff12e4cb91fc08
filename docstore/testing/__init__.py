"""Servers for tests: a standalone node, a replica set or a sharded cluster of real processes, as context managers.

    with Cluster(shards=2, members=3, routers=2) as cluster:
        client = pymongo.MongoClient(cluster.uri)

Nothing needs to be installed or to run beforehand; nothing is left afterwards (`docstore.testing.zygote` says how). The
plugin for pytest is imported by every pytest of an environment: importing it imports nothing else of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docstore.testing.cluster import Cluster
    from docstore.testing.deployment import Deployment
    from docstore.testing.launcher import StartFailed
    from docstore.testing.member import Member
    from docstore.testing.replica_set import ReplicaSet
    from docstore.testing.standalone import Standalone

__all__ = ["Cluster", "Deployment", "Member", "ReplicaSet", "Standalone", "StartFailed"]

_MODULES = {
    "Cluster": "cluster",
    "Deployment": "deployment",
    "Member": "member",
    "ReplicaSet": "replica_set",
    "Standalone": "standalone",
    "StartFailed": "launcher",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
