"""`listDatabases`: the databases of all shards and of the config servers, sizes added up."""

from __future__ import annotations

from typing import Any

import bson
from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.shards import CONFIG, each

_OF_THE_CLUSTER = ("admin", "config")


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    shards = [*await router.shards.all(), router.config]
    body = forwarded(context.raw, without=("nameOnly",))
    answers = await each(shards, lambda shard: shard.command("admin", body, repeatable=True))
    found: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for row in bson.decode(answer.body)["databases"]:
            if row["name"] == "local" or (row["name"] in _OF_THE_CLUSTER) != (answer.shard == CONFIG):
                continue
            size = row.get("sizeOnDisk", 0)
            known = found.setdefault(row["name"], {"name": row["name"], "sizeOnDisk": 0, "empty": True, "shards": {}})
            known["sizeOnDisk"] += size
            known["empty"] = known["empty"] and row.get("empty", True)
            known["shards"][answer.shard] = Int64(size)
    rows = [found[name] for name in sorted(found)]
    if args["nameOnly"]:
        return {"databases": [{"name": row["name"]} for row in rows]}
    total = sum(row["sizeOnDisk"] for row in rows)
    for row in rows:
        row["sizeOnDisk"] = Int64(row["sizeOnDisk"])
    return {"databases": rows, "totalSize": Int64(total), "totalSizeMb": Int64(total // (1024 * 1024))}


COMMAND = Command(
    "listDatabases",
    run,
    aliases=("listdatabases",),
    privilege=Privilege("listDatabases", Resource.CLUSTER),
    role=Role.SECONDARY_OK,
    admin_only=True,
    stable=True,
    parameters=(
        Parameter("nameOnly", Type.SAFE_BOOL, default=False),
        Parameter("filter", Type.OBJECT),
        Parameter("authorizedDatabases", Type.SAFE_BOOL, default=False),
    ),
    help="The databases of the cluster.",
)
