"""Stages that report on processes, through a router: `$currentOp`, `$listSessions`, `$listLocalSessions`.

Operations of all shards are listed, each with its shard's name; with `localOps` only the router's own. Sessions of
the shards and of the router are listed once each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import bson

from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.aggregation.stages.sources import ProcessDocuments
from docstore.bson import document_from, document_to_python
from docstore.bson.walk import OBJECT
from docstore.commands.context import Context
from docstore.commands.operations.report import in_progress, wanted_of
from docstore.commands.sessions.report import sessions_in_use
from mongos.router import router_of

_EACH_ONCE = bson.encode({"$group": {"_id": "$_id", "lastUse": {"$max": "$lastUse"}}})


def _operations(context: Context, options: bytes) -> list[dict[str, Any]]:
    return in_progress(context, wanted_of(options), host=router_of(context).facts.address)


def _sessions(context: Context, options: bytes) -> list[dict[str, Any]]:
    return sessions_in_use(context, options)


_OWN: Mapping[str, Callable[[Context, bytes], list[dict[str, Any]]]] = {
    "$currentOp": _operations,
    "$listLocalSessions": _sessions,
    "$listSessions": _sessions,
}


def own_documents(context: Context, name: str, options: bytes) -> list[bytes]:
    """Return the documents that the named stage reports of this router."""
    return [bson.encode(document) for document in _OWN[name](context, options)]


def asked_of_all(context: Context, pipeline: Pipeline) -> ProcessDocuments | None:
    """Return the first stage, as it is sent to every shard, if all are asked for its documents; else None.

    For a shard, every user of a router is the router itself. A user's own operations are therefore those that this
    router knows, and for the own sessions the shards are asked by the user's name.
    """
    first = pipeline.stages[0] if pipeline.stages else None
    if not isinstance(first, ProcessDocuments) or first.name not in ("$currentOp", "$listSessions"):
        return None
    if first.name == "$listSessions":
        return _sessions_of_named(context, first)
    wanted = wanted_of(first.options)
    own = context.owner is not None and not wanted.all_users
    return None if own or wanted.local else first


def _sessions_of_named(context: Context, stage: ProcessDocuments) -> ProcessDocuments:
    """Return `$listSessions` with the users whose sessions it lists, where it says all or is for nobody."""
    selection = document_to_python(stage.options)
    if context.owner is None or selection.get("allUsers") or selection.get("users"):
        return stage
    options = bson.encode({"users": [context.owner.document()]})
    return replace(stage, raw=document_from([(stage.name, OBJECT, options)]), options=options)


def shard_stages(first: ProcessDocuments, shard: str) -> list[bytes]:
    """Return the stages that replace the first stage on a shard."""
    if first.name != "$currentOp":
        return [first.raw]
    has_opid = {"$ne": [{"$type": "$opid"}, "missing"]}
    name = {"$literal": shard}
    opid = {"$cond": [has_opid, {"$concat": [name, ":", {"$toString": "$opid"}]}, "$$REMOVE"]}
    document = {"$mergeObjects": [{"shard": name}, "$$ROOT", {"opid": opid, "client_s": "$client"}]}
    return [first.raw, bson.encode({"$replaceWith": document}), bson.encode({"$unset": "client"})]


def over_all(context: Context, first: ProcessDocuments, pipeline: Pipeline) -> tuple[list[bytes], Pipeline]:
    """Return (documents of this router, pipeline over them and those of all shards)."""
    tail = pipeline.stages[1:]
    if first.name == "$currentOp":
        return [], Pipeline(tail, pipeline.query_context)
    once = parse_pipeline([_EACH_ONCE], query_context=pipeline.query_context)
    return own_documents(context, first.name, first.options), Pipeline((*once.stages, *tail), pipeline.query_context)
