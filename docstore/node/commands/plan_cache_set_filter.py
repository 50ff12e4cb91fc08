"""`planCacheSetFilter`: restrict the planner, for queries of one shape, to the named indexes."""

from __future__ import annotations

from docstore.bson import Value, values
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, STRING
from docstore.collection.read.index_filters import IndexFilter
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_SET_FILTER
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.node.read.plan_shapes import named_query, planned_collection
from docstore.query.value.collation import parse_collation


async def run(context: Context, arguments: Arguments) -> Result:
    collection = await planned_collection(context)
    if collection is None:
        raise _bad("no such collection")
    indexes = _indexes(arguments)
    if arguments["query"] is None:
        raise _bad("required field query missing")
    query = named_query(context, arguments)
    assert query is not None, "it was given"
    shape_values = (arguments[name] for name in ("query", "sort", "projection"))
    query_document, sort, projection = (EMPTY_DOCUMENT if value is None else value[1] for value in shape_values)
    parsed_collation = None if arguments["collation"] is None else parse_collation(arguments["collation"][1])
    collation = None if parsed_collation is None else parsed_collation.raw
    collection.index_filters.put(query, IndexFilter(query_document, sort, projection, collation, indexes))
    collection.plans.clear()
    return {}


def _indexes(arguments: Arguments) -> tuple[Value, ...]:
    """Return the distinct key patterns and names of the argument. Errors: BadValue for other values, and for none."""
    argument = arguments["indexes"]
    if argument is None:
        raise _bad("required field indexes missing")
    code, data = argument
    if code != ARRAY:
        raise _bad("required field indexes must be an array")
    indexes: dict[bytes, Value] = {}
    for index in values(data):
        if index[0] not in (OBJECT, STRING):
            raise _bad("each item in indexes must be an object or string")
        if index == (OBJECT, EMPTY_DOCUMENT):
            raise _bad("index specification cannot be empty")
        indexes.setdefault(encode_key(index), index)
    if not indexes:
        raise _bad("required field indexes must contain at least one index")
    return tuple(indexes.values())


def _bad(reason: str) -> CommandError:
    return CommandError(Code.BadValue, reason)


COMMAND = PLAN_CACHE_SET_FILTER.command(run)
