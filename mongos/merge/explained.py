"""explain of a pipeline through a router: its split, and every shard's explain of its part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.aggregation.split import SplitPipeline
from docstore.aggregation.stages.bucket import shown_specification
from docstore.aggregation.stages.change_stream import change_stream_of
from docstore.aggregation.stages.write import target_of, without_target
from docstore.bson import array_from, document_from, document_to_python, elements
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT
from docstore.commands.context import Context
from docstore.query.value.values import string_value
from docstore.sharding.routing import Routing
from mongos.merge.pipelines import Request, divided, routed_pipeline
from mongos.router import router_of
from mongos.routing.requests import ShardReply
from mongos.routing.shards import each

_OF_THE_REPLY = frozenset(("command", "serverInfo", "serverParameters"))


async def explain_pipeline(context: Context, request: Request, verbosity: str, command: bytes) -> dict[str, Any]:
    """Return the reply of explain; the pipeline writes nothing."""
    if request.pipeline.is_change_stream:
        return await _explain_change_stream(context, request, verbosity, command)
    target = target_of(request.pipeline)

    async def attempt(request: Request, routing: Routing) -> dict[str, Any]:
        pipeline = request.pipeline
        if not pipeline.needs_collection or routing.primary is None:
            return _reply(request, SplitPipeline([], [stage.raw for stage in pipeline.stages], None), [])
        shards, split, _ = await divided(context, request, routing)
        inner = request.body(split.shard_stages, {})
        body = document_from([("explain", OBJECT, inner), ("verbosity", *string_value(verbosity))])
        return _reply(request, split, await router_of(context).ask(context, routing, shards, body))

    reading = Request(request.base, request.namespace, without_target(request.pipeline))
    reply = await routed_pipeline(context, reading, attempt)
    if target is not None:
        split = reply["splitPipeline"] or {"shardsPart": [], "mergerPart": []}
        split["mergerPart"].append(document_to_python(target.raw))
        reply["splitPipeline"] = split
    return reply | {"command": RawBSONDocument(command)}


async def _explain_change_stream(context: Context, request: Request, verbosity: str, command: bytes) -> dict[str, Any]:
    """Return the streams of all shards, and the stages that run on the router. Errors: those of the shards."""
    _, tail = change_stream_of(request.pipeline)
    stream, merge_stages = request.pipeline.stages[0].raw, [stage.raw for stage in tail.stages]
    inner = document_from(
        [
            elements(request.base)[0],
            ("pipeline", ARRAY, array_from([(OBJECT, stream)])),
            ("cursor", OBJECT, EMPTY_DOCUMENT),
        ]
    )
    body = document_from([("explain", OBJECT, inner), ("verbosity", *string_value(verbosity))])
    shards = await router_of(context).shards.all()
    answers = await each(shards, lambda shard: shard.command(context.db, body, repeatable=True))
    return _reply(request, SplitPipeline([stream], merge_stages, None), answers, merged=True) | {
        "command": RawBSONDocument(command)
    }


def _reply(
    request: Request, split: SplitPipeline, answers: Sequence[ShardReply], *, merged: bool = False
) -> dict[str, Any]:
    explanation: dict[str, Any] = {}
    if merged or split.merge_stages or not answers or split.merge_sort is not None:
        parts = {"shardsPart": split.shard_stages, "mergerPart": split.merge_stages}
        query_context = request.pipeline.query_context
        halves = {
            name: [document_to_python(shown_specification(stage, query_context)) for stage in stages]
            for name, stages in parts.items()
        }
        explanation |= {"mergeType": "mongos", "splitPipeline": halves}
    else:
        explanation["splitPipeline"] = None
    shards: dict[str, Any] = {}
    for answer in answers:
        reply = answer.decoded()
        shards[answer.shard] = {"host": answer.address} | {
            name: value for name, value in reply.items() if name not in _OF_THE_REPLY
        }
        explanation |= {name: reply[name] for name in ("serverInfo", "serverParameters") if name in reply}
    return {**explanation, "shards": shards}
