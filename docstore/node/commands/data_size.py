"""dataSize: return the number and the bytes of a collection's documents, from counters that every write maintains."""

from __future__ import annotations

from typing import Any

from docstore.collection.catalog.views import check_no_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.node.node import node_of
from docstore.node.upkeep.collection_stats import number, stored_count

_PART = "dataSize tells of whole collections only"


def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    check_no_view(node.store, arguments.value)
    stored = stored_count(node, arguments.value)
    if stored is None:
        return {"size": 0, "numObjects": 0, "millis": 0}
    metrics: dict[str, Any] = {"estimate": arguments["estimate"], "size": number(stored.size)}
    return metrics | {"numObjects": number(stored.count), "millis": 0}


COMMAND = Command(
    "dataSize", run, aliases=("datasize",), privilege=Privilege("find", Resource.COLLECTION), role=Role.SECONDARY_OK,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("estimate", Type.BOOL, default=False),
        Parameter("keyPattern", Type.OBJECT, unsupported=_PART),
        Parameter("min", Type.OBJECT, unsupported=_PART),
        Parameter("max", Type.OBJECT, unsupported=_PART),
        Parameter("maxSize", Type.INT, unsupported=_PART),
        Parameter("maxObjects", Type.INT, unsupported=_PART),
    ),
    help="documents and bytes of a collection",
)  # fmt: skip
