"""Discovery of the config servers, and initiation of a replica set from a bare list of them.

`--configdb set/h1,h2,h3` names an initiated set. A bare list, as in 2012, names hosts that become a set by
themselves. The first router asks the first host (in sorted order, so that all routers ask the same one) to initiate a
set of exactly these hosts; later routers find it initiated. A set is never initiated while one of the hosts is down:
that host could belong to another set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.net import NetworkError, Pool

IMPLICIT_SET = "configReplSet"
"""The set name of config servers that were started without one; a bare list means this set."""
PATIENCE_SECONDS = 30.0
_HELLO_SECONDS = 5.0


class ConfigServersMissing(Exception):
    """The config servers cannot be used; the message is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class ConfigDb:
    """`set_name` is empty for a bare list."""

    set_name: str
    hosts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> ConfigDb:
        """From `--configdb`. ValueError with a sentence when it is malformed."""
        if not text:
            raise ValueError("--configdb is needed: set/host:port,... or host:port,...")
        set_name, slash, host_list = text.rpartition("/")
        if slash and not set_name:
            raise ValueError(f"--configdb {text}: the set's name is empty")
        hosts = tuple(host.strip() for host in host_list.split(","))
        for host in hosts:
            name, _, port = host.rpartition(":")
            if not name or not port.isdigit() or not 0 < int(port) < 65536:
                raise ValueError(f"--configdb {text}: '{host}' is not host:port")
        if len(set(hosts)) != len(hosts):
            raise ValueError(f"--configdb {text}: a host is named twice")
        return cls(set_name, hosts)

    @property
    def bare(self) -> bool:
        return not self.set_name


async def find_config_servers(
    configdb: ConfigDb,
    pool: Pool,
    clock: Callable[[], float],
    report: Callable[[str, dict[str, Any]], None],
    waiting: Callable[[str], None],
) -> str:
    """Return the set name of the config servers; initiate the set if that is up to this router.

    `waiting` hears the obstacle whenever it changes. Errors: ConfigServersMissing after `PATIENCE_SECONDS`, or at
    once for hosts that are something else.
    """
    end = clock() + PATIENCE_SECONDS
    last_obstacle = ""
    while True:
        hellos: dict[str, dict[str, Any]] = {}
        away: dict[str, NetworkError] = {}
        for host in configdb.hosts:
            try:
                hellos[host] = await _hello(pool, host)
            except NetworkError as error:
                away[host] = error
        names = {str(hello["setName"]) for hello in hellos.values() if "setName" in hello}
        if len(names) > 1:
            raise ConfigServersMissing(f"the hosts of --configdb belong to different sets: {sorted(names)}")
        if names:
            (name,) = names
            if not configdb.bare and name != configdb.set_name:
                raise ConfigServersMissing(f"the config servers belong to set {name}, not {configdb.set_name}")
            return name
        obstacle = ""
        strangers = sorted(host for host, error in away.items() if error.code == Code.AuthenticationFailed)
        if strangers:
            obstacle = f"another key than that of --keyFile is known to {', '.join(strangers)}"
        elif away:
            obstacle = f"no answer from {', '.join(sorted(away))}"
        elif configdb.bare:
            obstacle = await _initiate(configdb, pool, report)
        else:
            obstacle = f"the config servers are not initiated: run rs.initiate() on one of {', '.join(configdb.hosts)}"
        if obstacle and clock() > end:
            raise ConfigServersMissing(obstacle)
        if obstacle and obstacle != last_obstacle:
            waiting(obstacle)
            last_obstacle = obstacle
        await asyncio.sleep(0.2)


async def _hello(pool: Pool, host: str) -> dict[str, Any]:
    """Errors: NetworkError."""
    return document_to_python(await pool.command(host, "admin", {"hello": 1}, timeout=_HELLO_SECONDS))


async def _initiate(configdb: ConfigDb, pool: Pool, report: Callable[[str, dict[str, Any]], None]) -> str:
    """Initiate the set; return the obstacle, or an empty string once the set is initiated."""
    hosts = sorted(configdb.hosts)
    members = [{"_id": number, "host": host} for number, host in enumerate(hosts)]
    config = {"_id": IMPLICIT_SET, "configsvr": True, "members": members}
    report("Initiating the config servers", {"set": IMPLICIT_SET, "hosts": hosts})
    try:
        await pool.command(hosts[0], "admin", {"replSetInitiate": config})
    except CommandError as error:
        if error.code == Code.AlreadyInitialized:
            return ""
        if error.code not in (
            Code.NodeNotFound,
            Code.InvalidReplicaSetConfig,
            Code.NewReplicaSetConfigurationIncompatible,
        ):
            raise ConfigServersMissing(f"{hosts[0]} does not initiate the config servers: {error.message}") from error
        return f"{hosts[0]} does not initiate the config servers: {error.message}"
    except NetworkError as error:
        return f"{hosts[0]} does not initiate the config servers: {error}"
    return ""
