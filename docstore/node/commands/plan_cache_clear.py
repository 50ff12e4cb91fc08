"""`planCacheClear`: the plans that are kept for a collection, or for the shape of one query, are chosen anew."""

from __future__ import annotations

from docstore.collection.read.counting import count_shape
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_CLEAR
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.requests import filter_of, query_context_of, sort_of
from docstore.query.plan.shapes import shape_of


def run(context: Context, arguments: Arguments) -> Result:
    if arguments["query"] is None and any(arguments[name] is not None for name in ("sort", "projection", "collation")):
        raise CommandError(Code.BadValue, "sort, projection, or collation provided without query")
    collection = node_of(context).store.collection(context.namespace)
    if arguments["query"] is None:
        if collection is not None:
            collection.plans.clear()
        return {}
    query_context = query_context_of(context, arguments)
    tree = filter_of(arguments["query"], query_context)
    sort = sort_of(arguments["sort"], query_context, tree)
    if collection is not None:
        collection.plans.forget(shape_of(tree, sort))
        collection.plans.forget(count_shape(tree))
    return {}


COMMAND = PLAN_CACHE_CLEAR.command(run)
