"""explain of mapReduce: the query that finds the documents to map, then the equivalent pipeline stages.

The functions do not run: executionStats cover the query alone.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import Value, to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.map_reduce import Mode, Output, job_of, output_of
from docstore.js.job import Limits
from docstore.node.explain.command import Subject, explained, frame
from docstore.node.read.requests import filter_of, sort_of
from docstore.query.context import QueryContext
from docstore.query.find import FindQuery


async def explain_map_reduce(context: Context, inner: Arguments, query_context: QueryContext, verbosity: str) -> Result:
    """Return the reply of explain. Errors: those of invalid arguments of mapReduce."""
    output = output_of(inner, context.db)
    job = job_of(inner, Limits(owner=context.owner), collation=query_context.collation)
    query = FindQuery(
        filter=filter_of(inner["query"], query_context),
        sort=sort_of(inner["sort"], query_context),
        limit=inner["limit"] or 0,
    )
    query_plan = await explained(context, Subject(query, collation=query_context.collation), verbosity)
    reduce = to_python(job.reduce)
    stages: list[dict[str, Any]] = [
        {"$cursor": query_plan},
        {"$project": {"emits": {"$_internalJsEmit": {"eval": to_python(job.map), "this": "$$ROOT"}}, "_id": False}},
        {"$unwind": {"path": "$emits"}},
        {"$group": {"_id": "$emits.k", "value": {"$_internalJsReduce": {"data": "$emits", "eval": reduce}}}},
    ]
    if job.finalize is not None:
        finalize = _function(job.finalize, ["$_id", "$value"])
        stages.append({"$project": {"_id": True, "value": finalize}})
    if output.mode is not Mode.INLINE:
        stages.append(_output_stage(output, job.reduce))
    return {"explainVersion": "1", "stages": stages, **frame(context)}


def _function(body: Value, args: list[Any]) -> dict[str, Any]:
    return {"$function": {"body": to_python(body), "args": args, "lang": "js"}}


def _output_stage(output: Output, reduce: Value) -> dict[str, Any]:
    target = {"db": output.database, "coll": output.collection}
    if output.mode is Mode.REPLACE:
        return {"$out": target}
    if output.mode is Mode.MERGE:
        return {"$merge": {"into": target, "on": "_id", "whenMatched": "replace", "whenNotMatched": "insert"}}
    return {
        "$merge": {
            "into": target,
            "on": "_id",
            "let": {"new": "$$ROOT"},
            "whenMatched": [{"$project": {"value": _function(reduce, ["$_id", ["$value", "$$new.value"]])}}],
            "whenNotMatched": "insert",
        }
    }
