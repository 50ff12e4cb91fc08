"""Query shapes that plan cache commands name by filter, sort, projection and collation.

The commands validate these fields as the reference does, with BadValue where others have TypeMismatch.
"""

from __future__ import annotations

from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT
from docstore.collection.catalog.views import find_view
from docstore.collection.collection import Collection
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.entry import enter_read
from docstore.node.node import node_of
from docstore.node.read.requests import filter_of, query_context_at, sort_of, under
from docstore.node.slices import finish_steps
from docstore.query.find import FindQuery
from docstore.query.projection.parse import parse_projection

_OPTIONAL = ("sort", "projection", "collation")


async def planned_collection(context: Context) -> Collection | None:
    """Return the collection that the command names.

    Errors: CommandNotSupportedOnView; StaleConfig if the router's version is stale, because not every shard would get
    the command.
    """
    await finish_steps(context, enter_read(context))
    store = node_of(context).store
    collection = store.collection(context.namespace)
    if collection is None and find_view(store, context.namespace) is not None:
        name = context.namespace
        raise CommandError(Code.CommandNotSupportedOnView, f"Namespace {name} is a view, not a collection")
    return collection


def named_query(context: Context, arguments: Arguments) -> FindQuery | None:
    """Return the query whose shape the command names; None: all queries of the collection.

    Errors: BadValue for a field that is no document, and for a sort, projection or collation without a query; those of
    the parsers.
    """
    if arguments["query"] is None:
        if any(name in arguments for name in _OPTIONAL):
            raise CommandError(Code.BadValue, "sort, projection, or collation provided without query")
        return None
    query = _document(arguments, "query", "required")
    sort, projection, collation = (_document(arguments, name, "optional") for name in _OPTIONAL)
    if collation == EMPTY_DOCUMENT:
        raise CommandError(Code.BadValue, "optional field collation cannot be an empty object")
    node = node_of(context)
    query_context = under(query_context_at(node, None), node, context.namespace, collation)
    tree = filter_of(query, query_context)
    projected = None
    if projection is not None:
        projected = parse_projection(projection, query_context=query_context, tree=tree, metadata=True)
    return FindQuery(filter=tree, projection=projected, sort=sort_of(sort, query_context, tree))


def _document(arguments: Arguments, name: str, kind: str) -> bytes | None:
    argument = arguments[name]
    if argument is None:
        return None
    code, data = argument
    if code != OBJECT:
        raise CommandError(Code.BadValue, f"{kind} field {name} must be an object")
    document: bytes = data
    return document
