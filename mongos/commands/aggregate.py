"""`aggregate`: a pipeline over the cluster, as a cursor or into a collection."""

from __future__ import annotations

from dataclasses import replace

import bson

from docstore.bson import get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import integer_of
from docstore.errors import Code, CommandError
from mongos.merge.aggregate_requests import request_of
from mongos.merge.batches import first_reply
from mongos.merge.explained import explain_pipeline
from mongos.merge.output import write_results
from mongos.merge.pipelines import open_pipeline

_NOTHING = bson.encode({})


async def run(context: Context, args: Arguments) -> Result:
    if args["cursor"] is None and not args["explain"]:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    request = request_of(context, context.raw, args)
    if args["explain"]:
        return await explain_pipeline(context, request, "queryPlanner", context.raw)
    batch_size = _batch_size(args["cursor"])
    reading = replace(request, pipeline=request.pipeline.without_target())
    if request.pipeline.target is not None:
        return await write_results(context, request.pipeline.target, reading)
    merged = await open_pipeline(context, reading)
    return await first_reply(context, merged, batch_size=batch_size, namespace=context.view or context.namespace)


def _batch_size(cursor: bytes) -> int | None:
    found = get_field(cursor, "batchSize")
    if found is None:
        return None
    size = integer_of(*found)
    if size < 0:
        raise CommandError(Code.BadValue, "cursor.batchSize must not be negative")
    return size


COMMAND = Command(
    "aggregate",
    run,
    privilege=Privilege("find", Resource.COLLECTION),
    role=Role.SECONDARY_OK,
    read_concern=True,
    write_concern=True,
    stable=True,
    parameters=(
        Parameter("pipeline", Type.DOCUMENTS, required=True),
        Parameter("cursor", Type.OBJECT),
        Parameter("explain", Type.SAFE_BOOL, default=False),
        Parameter("allowDiskUse", Type.SAFE_BOOL, default=True),
        Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False),
        Parameter("hint", (Type.STRING, Type.OBJECT)),
        Parameter("collation", Type.OBJECT),
        Parameter("let", Type.OBJECT),
    ),
    help="Run a pipeline over a collection.",
)
