"""`count`: the sum of what the shards count; skip and limit apply to the sum."""

from __future__ import annotations

from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import document_to_python
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.view_stages import filter_stages, range_stages
from docstore.commands.specs.reads import COUNT
from docstore.errors import CommandError
from docstore.query.filter.parse import parse_filter
from docstore.sharding.routing import Routing
from mongos.relay.relay import Relaying, relayed
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import filter_shards
from mongos.views import first_document, read_below

_COUNT = bson.encode({"$count": "n"})
_INT32_MAX = 2**31 - 1


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    query_context = query_context_of(context, collation=args["collation"])
    tree = parse_filter(args["query"] or EMPTY_DOCUMENT, query_context=query_context)
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
        context.progress.whole_ok = True
        return {"n": 0} if counted is None else document_to_python(counted)
    return {"n": count if count <= _INT32_MAX else Int64(count)}


RELAYING = Relaying(
    lambda args, targets, language: targets.of_filter(args["query"] or EMPTY_DOCUMENT, language),
    b"\x10n\0",
    aside=frozenset(("collation",)),
)

COMMAND = COUNT.command(relayed(run, RELAYING))
