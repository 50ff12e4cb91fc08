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
    given = (arguments[name] for name in ("query", "sort", "projection"))
    shown, sort, projection = (EMPTY_DOCUMENT if each is None else each[1] for each in given)
    asked = None if arguments["collation"] is None else parse_collation(arguments["collation"][1])
    collation = None if asked is None else asked.raw
    collection.index_filters.put(query, IndexFilter(shown, sort, projection, collation, indexes))
    collection.plans.clear()
    return {}


def _indexes(arguments: Arguments) -> tuple[Value, ...]:
    """Return the distinct key patterns and names of the argument. Errors: BadValue for other values, and for none."""
    given = arguments["indexes"]
    if given is None:
        raise _bad("required field indexes missing")
    code, data = given
    if code != ARRAY:
        raise _bad("required field indexes must be an array")
    found: dict[bytes, Value] = {}
    for each in values(data):
        if each[0] not in (OBJECT, STRING):
            raise _bad("each item in indexes must be an object or string")
        if each == (OBJECT, EMPTY_DOCUMENT):
            raise _bad("index specification cannot be empty")
        found.setdefault(encode_key(each), each)
    if not found:
        raise _bad("required field indexes must contain at least one index")
    return tuple(found.values())


def _bad(reason: str) -> CommandError:
    return CommandError(Code.BadValue, reason)


COMMAND = PLAN_CACHE_SET_FILTER.command(run)
