"""`count`: the sum of what the shards count; skip and limit apply to the sum."""

from __future__ import annotations

from typing import Any

import bson
from bson.int64 import Int64

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.commands.shared.view_stages import filter_stages, range_stages
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import filter_shards
from mongos.views import first_document, read_below

_NOTHING = bson.encode({})
_COUNT = bson.encode({"$count": "n"})
_INT32_MAX = 2**31 - 1


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    tree = parse_filter(args["query"], query_context=query_context_of(context, collation=args["collation"]))
    skip, limit = args["skip"], abs(args["limit"])

    async def attempt(routing: Routing) -> int:
        if routing.primary is None:
            return 0
        shards = filter_shards(routing, tree)
        if len(shards) == 1:
            answers = await router.ask(context, routing, shards, forwarded(context.raw))
            return int(answers[0].decoded()["n"])
        add = {"limit": Int64(skip + limit)} if limit else {}
        answers = await router.ask(context, routing, shards, forwarded(context.raw, without=("skip", "limit"), add=add))
        total: int = max(sum(answer.decoded()["n"] for answer in answers) - skip, 0)
        return min(total, limit) if limit else total

    try:
        count = await router.routed(context, attempt)
    except CommandError as error:
        stages = [*filter_stages(args["query"]), *range_stages(skip, limit), _COUNT]
        counted = first_document(await read_below(context, error, stages))
        context.whole_ok = True
        return {"n": 0} if counted is None else bson.decode(counted)
    return {"n": count if count <= _INT32_MAX else Int64(count)}


COMMAND = Command(
    "count",
    run,
    privilege=Privilege("find", Resource.COLLECTION),
    role=Role.SECONDARY_OK,
    value=Type.COLLECTION,
    wrong_name=Code.InvalidNamespace,
    read_concern=True,
    stable=True,
    parameters=(
        Parameter("query", Type.OBJECT, default=_NOTHING),
        Parameter("skip", Type.INT, default=0, minimum=0),
        Parameter("limit", Type.INT, default=0),
        Parameter("hint", (Type.STRING, Type.OBJECT)),
        Parameter("fields", Type.OBJECT),
        Parameter("collation", Type.OBJECT),
    ),
    help="Count documents.",
)
