"""_configsvrAddShard: see `docstore.sharding.requests.add_shard`.

The shard is asked who it is, gets its identity (majority-committed there), and only then enters the catalog, so a shard
that is in the catalog always knows its name. Asking again after a failure anywhere in between completes it.
"""

from __future__ import annotations

from typing import Any

from configsvr.catalog.cluster import OWN_DATABASES
from configsvr.server import ConfigServer, server_of
from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command
from docstore.errors import Code, CommandError

_SECONDS = 10.0


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    set_name, hosts = parse_connection_string(arguments.value)
    name = arguments["name"] or set_name
    if name in ("", "config"):
        raise CommandError(Code.BadValue, f"a shard cannot be named '{name}'")
    host, databases = await _examine(server, arguments.value, set_name, hosts)
    shard = server.cluster.check_new_shard(name, set_name, frozenset(host.partition("/")[2].split(",")))
    if shard is None:
        await _identify(server, arguments.value, name)
        server.cluster.add_shard(name, host, databases)
        server.changelog.add("addShard", "", {"name": name, "host": host})
    await server.committed()
    return {"shardAdded": name}


def parse_connection_string(text: str) -> tuple[str, frozenset[str]]:
    """(set name, hosts) of "set/h:p,h:p". FailedToParse when it is something else."""
    set_name, slash, hosts = text.partition("/")
    members = frozenset(hosts.split(","))
    if not slash or not set_name or "" in members:
        raise CommandError(Code.FailedToParse, f"'{text}' is no replica set: write set/host:port,host:port")
    for member in members:
        _, _, port = member.rpartition(":")
        if not port.isdigit():
            raise CommandError(Code.FailedToParse, f"'{member}' has no port")
    return set_name, members


async def _examine(server: ConfigServer, target: str, set_name: str, hosts: frozenset[str]) -> tuple[str, list[str]]:
    """("set/h:p,h:p" as the set itself knows it, its databases). OperationFailed when it cannot become a shard."""
    try:
        hello = await _ask_any(server, hosts)
        _check_members(hello, target, set_name, hosts)
        listed = document_to_python(
            await server.peers.command(target, "admin", {"listDatabases": 1, "nameOnly": True}, timeout=_SECONDS)
        )
    except CommandError as error:
        await server.peers.forget(target)
        if error.code == Code.OperationFailed:
            raise
        raise CommandError(Code.OperationFailed, f"'{target}' cannot be added: {error.message}") from error
    databases = [row["name"] for row in listed["databases"] if row["name"] not in OWN_DATABASES]
    return f"{set_name}/{','.join(hello['hosts'])}", databases


async def _ask_any(server: ConfigServer, hosts: frozenset[str]) -> dict[str, Any]:
    """Return the hello of the first host that reports a set, because a member may not have heard yet that it is one.
    Else return any answer.
    """
    failure: CommandError | None = None
    answer: dict[str, Any] | None = None
    for host in sorted(hosts):
        try:
            answer = await server.peers.hello(host, timeout=_SECONDS)
        except CommandError as error:
            failure = error
        else:
            if "setName" in answer:
                return answer
    if answer is None:
        assert failure is not None, "a connection string names a host"
        raise failure
    return answer


def _check_members(hello: dict[str, Any], target: str, set_name: str, hosts: frozenset[str]) -> None:
    if "configsvr" in hello or hello.get("msg") == "isdbgrid":
        raise CommandError(Code.OperationFailed, f"'{target}' is a config server or a router, no shard")
    if hello.get("setName") != set_name:
        actual_name = hello.get("setName") or "not initiated as a replica set"
        raise CommandError(Code.OperationFailed, f"'{target}' is not the set {set_name}: it is {actual_name}")
    members = {*hello.get("hosts", ()), *hello.get("passives", ()), *hello.get("arbiters", ())}
    strangers = sorted(hosts - members)
    if strangers:
        raise CommandError(
            Code.OperationFailed,
            f"the set {set_name} has the members {','.join(sorted(members))}, not {','.join(strangers)}",
        )


async def _identify(server: ConfigServer, target: str, name: str) -> None:
    identity = {
        "_id": "shardIdentity",
        "shardName": name,
        "clusterId": server.cluster.id,
        "configsvrConnectionString": server.connection_string,
    }
    try:
        await server.peers.command(target, "admin", {"_addShard": 1, "shardIdentity": identity}, timeout=_SECONDS)
    except CommandError as error:
        reason = "it was not started with --shardsvr" if error.code == Code.CommandNotFound else error.message
        raise CommandError(Code.OperationFailed, f"'{target}' cannot be added: {reason}") from error


COMMAND = internal_command(
    "_configsvrAddShard",
    run,
    value=Type.STRING,
    parameters=(Parameter("name", Type.STRING, internal=True),),
    help="add a replica set as a shard",
)
