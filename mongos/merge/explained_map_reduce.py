"""explain of mapReduce through a router: every shard's explain of its part, and the stages that run on the router.

The functions do not run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, elements
from docstore.bson.walk import OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.map_reduce import job_of, output_of
from docstore.commands.requests.map_reduce_stages import final_stages, first_pass_stages, merging_stage
from docstore.js.job import Limits
from docstore.query.filter.parse import parse_filter
from docstore.query.value.values import string_value
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.requests import ShardReply
from mongos.routing.targeting import filter_shards

_INLINE = elements(bson.encode({"out": {"inline": 1}}))
_OF_THE_ROUTER = frozenset(("finalize", "out"))


async def explain_map_reduce(context: Context, inner: Arguments, verbosity: str, raw: bytes) -> dict[str, Any]:
    """Return the reply of explain. `raw`: the command inside. Errors: those of invalid arguments of mapReduce."""
    output = output_of(inner, context.db)
    query_context = query_context_of(context, collation=inner["collation"])
    query_context = replace(query_context, excluded=query_context.excluded | {"$where"})
    tree = parse_filter(inner["query"], query_context=query_context)
    job = job_of(inner, Limits(owner=context.owner), collation=query_context.collation)
    router = router_of(context)

    async def attempt(routing: Routing) -> tuple[Routing, list[ShardReply]]:
        if routing.primary is None:
            return routing, []
        fields = elements(raw)
        if routing.collection is not None:
            fields = [field for field in fields if field[0] not in _OF_THE_ROUTER] + _INLINE
        body = document_from([("explain", OBJECT, document_from(fields)), ("verbosity", *string_value(verbosity))])
        return routing, await router.ask(context, routing, filter_shards(routing, tree), body)

    routing, answers = await router.routed(context, attempt)
    shards, merged = {}, routing.collection is not None
    first_pass = first_pass_stages(job)
    # The router maps the first documents of several shards itself: no shard knows which these are.
    mapped_here = merged and bool(inner["limit"]) and len(answers) > 1
    for answer in answers:
        reply = answer.decoded()
        stages = reply["stages"][:1] if mapped_here else reply["stages"]
        shards[answer.shard] = {"host": answer.address, "explainVersion": reply["explainVersion"], "stages": stages}
    explanation: dict[str, Any] = {"splitPipeline": None}
    if merged:
        merging = first_pass if mapped_here else [merging_stage(job)]
        parts = {
            "shardsPart": [] if mapped_here else first_pass,
            "mergerPart": [*merging, *final_stages(job, output)],
        }
        explanation = {"mergeType": "mongos", "splitPipeline": parts}
    if answers:
        reply = answers[0].decoded()
        explanation |= {name: reply[name] for name in ("serverInfo", "serverParameters") if name in reply}
    return {**explanation, "shards": shards, "command": RawBSONDocument(raw)}
