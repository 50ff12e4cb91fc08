"""listDatabases: list the databases with their sizes on disk, including the server's own while they are empty."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.bson import from_python
from docstore.commands.access.visibility import shown_databases
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import LIST_DATABASES
from docstore.node.node import node_of
from docstore.node.slices import Slices
from docstore.node.upkeep.sizes import collection_sizes
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter

MEBIBYTE = 1024 * 1024
_ALWAYS_THERE = frozenset(("admin", "config", "local"))


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    predicate = compile_filter(parse_filter(arguments["filter"])) if arguments["filter"] is not None else None
    is_visible = shown_databases(context, arguments)
    databases: list[dict[str, Any]] = []
    total = 0
    slices = Slices(context)
    stored = frozenset(node.store.databases())
    for name in filter(is_visible, sorted(stored | _ALWAYS_THERE)):
        entry: dict[str, Any] = {"name": name}
        size = 0
        if not arguments["nameOnly"]:
            for namespace in node.store.namespaces(name):
                collection = node.store.collection(namespace)
                await slices.pause_when_due()
                if collection is not None:
                    sizes = collection_sizes(node.engine, collection)
                    size += sizes.storage + sum(sizes.indexes.values())
            entry["sizeOnDisk"] = Int64(size)
            entry["empty"] = name not in stored
        if predicate is None or predicate.matches(from_python(entry)[1]):
            databases.append(entry)
            total += size
    if arguments["nameOnly"]:
        return {"databases": databases}
    return {"databases": databases, "totalSize": Int64(total), "totalSizeMb": Int64(total // MEBIBYTE)}


COMMAND = LIST_DATABASES.command(run)
