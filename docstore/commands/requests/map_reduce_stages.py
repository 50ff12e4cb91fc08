"""mapReduce as the equivalent pipeline stages, for explain."""

from __future__ import annotations

from typing import Any

from docstore.bson import Value, to_python
from docstore.commands.requests.map_reduce import Mode, Output
from docstore.js.job import MapReduceJob


def first_pass_stages(job: MapReduceJob) -> list[dict[str, Any]]:
    """Return the stages that map documents and reduce what they emit, as each shard runs them."""
    return [
        {"$project": {"emits": {"$_internalJsEmit": {"eval": to_python(job.map), "this": "$$ROOT"}}, "_id": False}},
        {"$unwind": {"path": "$emits"}},
        {"$group": {"_id": "$emits.k", "value": {"$_internalJsReduce": {"data": "$emits", "eval": _reduce(job)}}}},
    ]


def merging_stage(job: MapReduceJob) -> dict[str, Any]:
    """Return the stage that reduces the shards' results once more."""
    value = {"$_internalJsReduce": {"data": "$value", "eval": _reduce(job)}}
    return {"$group": {"_id": "$$ROOT._id", "value": value, "$doingMerge": True}}


def final_stages(job: MapReduceJob, output: Output) -> list[dict[str, Any]]:
    """Return the stages that finalize results and write them."""
    stages: list[dict[str, Any]] = []
    if job.finalize is not None:
        finalize = _function(job.finalize, ["$_id", "$value"])
        stages.append({"$project": {"_id": True, "value": finalize}})
    if output.mode is not Mode.INLINE:
        stages.append(_output_stage(output, job.reduce))
    return stages


def _reduce(job: MapReduceJob) -> Any:
    return to_python(job.reduce)


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
