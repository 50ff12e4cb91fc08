"""`explain`: how the shards would carry out a command, side by side, under one stage that says how they are merged.

Every shard that the command's filter leads to explains it for itself; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import append_fields, array_documents, document_from, elements, encoded_fields, get_field
from docstore.bson.walk import ARRAY, OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.explained import explained_command
from docstore.commands.specs.reads import EXPLAIN
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.sharding.routing import Routing
from mongos.merge.aggregate_requests import request_of
from mongos.merge.explained import explain_pipeline
from mongos.merge.explained_map_reduce import explain_map_reduce
from mongos.router import router_of
from mongos.routing.query_context import query_context_of, statement_time
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.targeting import filter_shards

_NOTHING = bson.encode({})
_FILTERS = {
    "find": "filter",
    "count": "query",
    "distinct": "query",
    "findAndModify": "query",
    "update": "updates",
    "delete": "deletes",
}
"""The field of each command that holds its filter or statements."""
_EXPLAINABLE = frozenset(("aggregate", "mapReduce", *_FILTERS))
_WRITES = frozenset(("update", "delete", "findAndModify"))


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    inner: bytes = args.value
    name, arguments = explained_command(context, inner, _EXPLAINABLE)
    if name == "aggregate":
        request = request_of(context, inner, arguments)
        return await explain_pipeline(context.about(request.namespace), request, args["verbosity"], inner)
    context = context.about(f"{context.db}.{arguments.value}")
    if name == "mapReduce":
        return await explain_map_reduce(context, arguments, args["verbosity"], inner)
    subject = _subject(name, inner)
    collation = get_field(subject, "collation")
    query_context = query_context_of(context, collation=collation[1] if collation is not None else None)
    tree = parse_filter(_filter_of(name, subject), query_context=query_context)
    router = router_of(context)
    time = encoded_fields(bson.encode(statement_time(query_context, inner)))

    async def attempt(routing: Routing) -> list[ShardReply]:
        if routing.primary is None:
            return []
        shards = filter_shards(routing, tree)
        body = forwarded(context.raw, without=("explain",))
        shard_command = _merged_find(inner, arguments) if name == "find" and len(shards) > 1 else inner
        if time:
            shard_command = append_fields(shard_command, time)
        # The command's name has to come first.
        body = document_from([("explain", OBJECT, shard_command), *elements(body)])
        return await router.ask(context, routing, shards, body)

    began = router.clock()
    answers = await router.routed(context, attempt)
    millis = round((router.clock() - began) * 1000)
    hosts = {answer.shard: (await router.shards.get(answer.shard)).host for answer in answers}
    return _reply(_stage_name(name, inner, len(answers)), answers, inner, millis, hosts)


def _subject(name: str, inner: bytes) -> bytes:
    """Return the document that holds the command's filter: the command itself, or its only statement."""
    value = get_field(inner, _FILTERS[name])
    if value is None or value[0] != ARRAY:
        return inner
    statements = array_documents(value[1])
    if len(statements) != 1:
        raise CommandError(Code.InvalidLength, "explained write batches must be of size 1")
    return statements[0]


def _filter_of(name: str, subject: bytes) -> bytes:
    value = get_field(subject, _FILTERS[name])
    if value is None:
        value = get_field(subject, "q")
    return value[1] if value is not None and value[0] == OBJECT else _NOTHING


def _merged_find(inner: bytes, arguments: Arguments) -> bytes:
    """Return the find for each of several shards: all documents that may be in the result."""
    skip, limit = arguments["skip"], arguments["limit"]
    fields = [field for field in elements(inner) if field[0] not in ("skip", "limit")]
    add = elements(bson.encode({"limit": Int64(skip + limit)})) if limit else []
    return document_from([*fields, *add])


def _stage_name(name: str, inner: bytes, shards: int) -> str:
    if name in _WRITES:
        return "SHARD_WRITE"
    if shards <= 1:
        return "SINGLE_SHARD"
    sort = get_field(inner, "sort")
    return "SHARD_MERGE_SORT" if sort is not None and sort[1] != _NOTHING else "SHARD_MERGE"


def _reply(
    stage: str, answers: list[ShardReply], inner: bytes, millis: int, hosts: Mapping[str, str]
) -> dict[str, Any]:
    """`hosts`: the members of each shard as in config.shards."""
    decoded = [(answer, answer.decoded()) for answer in answers]
    planned = [_shard_plan(answer, explanation, hosts[answer.shard]) for answer, explanation in decoded]
    planner = {"mongosPlannerVersion": 1, "winningPlan": {"stage": stage, "shards": planned}}
    reply: dict[str, Any] = {"queryPlanner": planner}
    if not decoded:
        planner["winningPlan"] = {"stage": "EOF"}
    elif "executionStats" in decoded[0][1]:
        reply["executionStats"] = _execution(stage, decoded, millis)
    if decoded:
        reply |= {field: decoded[0][1][field] for field in ("serverInfo", "serverParameters")}
    return reply | {"command": RawBSONDocument(inner)}


def _shard_plan(answer: ShardReply, found: dict[str, Any], host: str) -> dict[str, Any]:
    return {
        "shardName": answer.shard,
        "connectionString": host,
        "serverInfo": found["serverInfo"],
        **found["queryPlanner"],
    }


def _execution(stage: str, decoded: list[tuple[ShardReply, dict[str, Any]]], millis: int) -> dict[str, Any]:
    shards = [{"shardName": answer.shard, **explanation["executionStats"]} for answer, explanation in decoded]
    totals = {
        "nReturned": sum(stats["nReturned"] for stats in shards),
        "executionTimeMillis": millis,
        "totalKeysExamined": sum(stats["totalKeysExamined"] for stats in shards),
        "totalDocsExamined": sum(stats["totalDocsExamined"] for stats in shards),
    }
    children = Int64(sum(stats["executionTimeMillis"] for stats in shards))
    return totals | {"executionStages": {"stage": stage, **totals, "totalChildMillis": children, "shards": shards}}


COMMAND = EXPLAIN.command(run)
