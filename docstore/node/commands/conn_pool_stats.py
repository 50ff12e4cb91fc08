"""connPoolStats: the connections from this process to others."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    return pool_figures(node_of(context).links())


def pool_figures(links: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The reply; `links` gives for each address how many connections are `open` and how many of them `idle`."""
    hosts = {
        address: {"inUse": each["open"] - each["idle"], "available": each["idle"], "created": each["created"]}
        for address, each in links.items()
    }
    return {
        "numClientConnections": sum(each["open"] for each in links.values()),
        "numAScopedConnections": 0,
        "totalInUse": sum(each["inUse"] for each in hosts.values()),
        "totalAvailable": sum(each["available"] for each in hosts.values()),
        "totalCreated": sum(each["created"] for each in hosts.values()),
        "totalRefreshing": 0,
        "totalRefreshed": 0,
        "pools": {},
        "hosts": hosts,
        "numReplicaSetMonitorsCreated": 0,
        "replicaSets": {},
    }


COMMAND = Command(
    "connPoolStats", run, privilege=Privilege("connPoolStats", Resource.CLUSTER), role=Role.ANY, tolerant=True,
    help="connections to other processes",
)  # fmt: skip
