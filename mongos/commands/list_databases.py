"""`listDatabases`: the databases of all shards and of the config servers, sizes added up."""

from __future__ import annotations

from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import document_to_python
from docstore.commands.access.visibility import shown_databases
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import LIST_DATABASES
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.shards import CONFIG, each

_OF_THE_CLUSTER = ("admin", "config")


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    is_visible = shown_databases(context, args)
    matcher = None if args["filter"] is None else compile_filter(parse_filter(args["filter"]))
    shards = [*await router.shards.all(), router.config]
    body = forwarded(context.raw, without=("nameOnly", "filter", "authorizedDatabases"))
    answers = await each(shards, lambda shard: shard.command("admin", body, repeatable=True))
    databases: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for row in document_to_python(answer.body)["databases"]:
            if row["name"] == "local" or (row["name"] in _OF_THE_CLUSTER) != (answer.shard == CONFIG):
                continue
            size = row.get("sizeOnDisk", 0)
            entry = databases.setdefault(
                row["name"], {"name": row["name"], "sizeOnDisk": 0, "empty": True, "shards": {}}
            )
            entry["sizeOnDisk"] += size
            entry["empty"] = entry["empty"] and row.get("empty", True)
            entry["shards"][answer.shard] = Int64(size)
    rows = [databases[name] for name in filter(is_visible, sorted(databases))]
    for row in rows:
        row["sizeOnDisk"] = Int64(row["sizeOnDisk"])
    if args["nameOnly"]:
        rows = [{"name": row["name"]} for row in rows]
    if matcher is not None:
        rows = [row for row in rows if matcher.matches(bson.encode(row))]
    if args["nameOnly"]:
        return {"databases": rows}
    total = sum(row["sizeOnDisk"] for row in rows)
    return {"databases": rows, "totalSize": Int64(total), "totalSizeMb": Int64(total // (1024 * 1024))}


COMMAND = LIST_DATABASES.command(run)
