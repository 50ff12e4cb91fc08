"""dataSize: return the number and the bytes of a collection's documents, from counters that every write maintains."""

from __future__ import annotations

from typing import Any

from docstore.collection.catalog.views import check_no_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import DATA_SIZE
from docstore.node.node import node_of
from docstore.node.upkeep.collection_stats import number, stored_count


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    check_no_view(node.store, arguments.value)
    stored = stored_count(node, arguments.value)
    if stored is None:
        return {"size": 0, "numObjects": 0, "millis": 0}
    metrics: dict[str, Any] = {"estimate": arguments["estimate"], "size": number(stored.size)}
    return metrics | {"numObjects": number(stored.count), "millis": 0}


COMMAND = DATA_SIZE.command(run)
