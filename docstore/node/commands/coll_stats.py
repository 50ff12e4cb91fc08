"""collStats: counts and sizes of one collection."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code
from docstore.node.node import node_of
from docstore.node.upkeep.collection_stats import namespace_stats


def run(context: Context, arguments: Arguments) -> Result:
    return {"ns": context.namespace, **namespace_stats(node_of(context), context.namespace, arguments["scale"])}


COMMAND = Command(
    "collStats", run, aliases=("collstats",), privilege=Privilege("collStats", Resource.COLLECTION),
    role=Role.SECONDARY_OK, value=Type.COLLECTION, wrong_name=Code.InvalidNamespace,
    tolerant=True, parameters=(Parameter("scale", Type.INT, default=1, minimum=1),),
    help="figures about a collection",
)  # fmt: skip
