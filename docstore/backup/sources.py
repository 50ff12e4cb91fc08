"""The sources of a backup: the sets of a deployment, found through any of its servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from docstore.backup.access import Access, Client
from docstore.tools.terminal import ToolFailed

CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Source:
    """A set, or with `set_name` None a standalone node. `name`: of its part."""

    name: str
    set_name: str | None
    addresses: tuple[str, ...]

    @property
    def directory(self) -> str:
        return quote(self.name, safe="")


def sources_of(access: Access) -> tuple[str, tuple[Source, ...]]:
    """(kind of the deployment, its sets): "node", "set" or "cluster". Errors: ToolFailed, PyMongoError."""
    client = access.named()
    hello = client.admin.command("hello")
    if hello.get("msg") == "isdbgrid":
        return "cluster", _cluster(access)
    if "setName" not in hello:
        if hello.get("isreplicaset"):
            raise ToolFailed("the member is of no set yet: it has no configuration")
        host, port = client.address or ("127.0.0.1", 27017)
        return "node", (Source("node", None, (f"{host}:{port}",)),)
    return "set", (Source("set", hello["setName"], _members(hello)),)


def _cluster(access: Access) -> tuple[Source, ...]:
    shards = [_source(row["_id"], row["host"]) for row in access.named()["config"]["shards"].find()]
    if not shards:
        raise ToolFailed("the cluster has no shard yet")
    first = shards[0]
    assert first.set_name is not None, "shards are sets"
    shard = access.replica_set(first.set_name, first.addresses)
    identity = shard["admin"]["system.version"].find_one({"_id": "shardIdentity"})
    if identity is None:
        raise ToolFailed(f"the shard {first.name} does not say what its config servers are")
    config = _source(CONFIG, identity["configsvrConnectionString"])
    return config, *sorted(shards, key=lambda each: each.name)


def _source(name: str, connection: str) -> Source:
    set_name, _, hosts = connection.partition("/")
    return Source(name, set_name, tuple(hosts.split(",")))


def _members(hello: Mapping[str, Any]) -> tuple[str, ...]:
    return (*hello.get("hosts", ()), *hello.get("passives", ()))


def owner_of(client: Client) -> str:
    """The id of the set that a server is a member of, or of the database of a node. Errors: PyMongoError."""
    reply = client.admin.command("backupOpen", checkpoint=False)
    return str(reply.get("setId") or reply["database"])


def member_of(access: Access, source: Source, preferred: str | None) -> str:
    """Return the address of the member to read from: `preferred` if it can serve, else a secondary that keeps up, else
    the primary.

    Errors: PyMongoError if there is no primary to ask.
    """
    if source.set_name is None:
        return source.addresses[0]
    hello = access.replica_set(source.set_name, source.addresses).admin.command("hello")
    reached: dict[str, tuple[bool, int]] = {}
    for address in _members(hello):
        try:
            reply = access.member(address).admin.command("hello")
        except Exception as error:  # try another member after any error
            if len(_members(hello)) == 1:
                raise ToolFailed(f"{address} does not answer: {error}") from error
            continue
        if reply.get("secondary") or reply.get("isWritablePrimary"):
            time = reply["lastWrite"]["opTime"]["ts"]
            reached[address] = (bool(reply.get("secondary")), time.time << 32 | time.inc)
    if not reached:
        raise ToolFailed(f"no member of {source.set_name} can be read from")
    if preferred in reached:
        return str(preferred)
    return max(reached, key=lambda address: reached[address])
