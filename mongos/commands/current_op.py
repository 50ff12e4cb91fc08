"""`currentOp`: the operations that the shards are working on, each with the name of its shard."""

from __future__ import annotations

from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.parse import parse_pipeline
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.commands.specs.processes import CURRENT_OP
from mongos.merge.pipelines import Request, open_pipeline
from mongos.routing.query_context import query_context_of

_OWN = ENVELOPE_FIELDS | {"currentOp", "$all", "$ownOps"}
_AT_ONCE = 1000
_BYTES = 16 * 1024 * 1024


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    conditions = {name: value for name, value in context.body.items() if name not in _OWN}
    everyone = not context.body.get("$ownOps")
    options = {"idleConnections": bool(context.body.get("$all")), "allUsers": everyone, "truncateOps": True}
    stages = [{"$currentOp": options}, {"$match": conditions}]
    pipeline = parse_pipeline([bson.encode(stage) for stage in stages], query_context=query_context_of(context))
    merged = await open_pipeline(context, Request(bson.encode({"aggregate": 1}), f"{context.db}.$cmd", pipeline))
    operations: list[RawBSONDocument] = []
    try:
        ended = False
        while not ended:
            documents, ended = await merged.next_batch(_AT_ONCE, _BYTES)
            operations += map(RawBSONDocument, documents)
    finally:
        merged.close()
    return {"inprog": operations}


COMMAND = CURRENT_OP.command(run)
