"""The names of the roles that are built in. Nothing grants them yet: there is no authentication."""

from __future__ import annotations

EVERYWHERE = ("dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin")
ADMIN = (
    "__queryableBackup", "__system", "backup", "clusterAdmin", "clusterManager", "clusterMonitor",
    "dbAdminAnyDatabase", "directShardOperations", "hostManager", "readAnyDatabase", "readWriteAnyDatabase", "restore",
    "root", "userAdminAnyDatabase",
)  # fmt: skip


def roles_of(database: str) -> tuple[str, ...]:
    """The roles that a database has."""
    return (*EVERYWHERE, *ADMIN) if database == "admin" else EVERYWHERE
