"""`aggregate`: a pipeline over the cluster, as a cursor or into a collection."""

from __future__ import annotations

import bson

from docstore.aggregation.pipeline import parse_pipeline
from docstore.bson import elements, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.commands.stable_stages import check_stable_stages
from docstore.commands.values import integer_of
from docstore.errors import Code, CommandError
from docstore.js.scripts import RUNNING
from mongos.merge.batches import first_reply
from mongos.merge.output import write_results
from mongos.merge.pipelines import Request, open_pipeline
from mongos.routing.language import language_of

_NOTHING = bson.encode({})
_NOT_HERE = ("$currentOp", "$listLocalSessions", "$listSessions", "$planCacheStats")
"""Stages that tell of one process."""


async def run(context: Context, args: Arguments) -> bytes:
    if args["explain"]:
        raise CommandError(Code.NotImplemented, "explain of an aggregation through a router is not supported yet")
    if args["cursor"] is None:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    for stage in args["pipeline"]:
        for name, _, _ in elements(stage)[:1]:
            if name in _NOT_HERE:
                raise CommandError(Code.NotImplemented, f"{name} through a router is not supported yet")
    if context.api_strict:
        check_stable_stages(args["pipeline"])
    language = language_of(context, args["let"], args["collation"], scripts=RUNNING)
    pipeline = parse_pipeline(args["pipeline"], language=language)
    collection = _collection(*args.value)
    if pipeline.needs_collection == (collection == _NO_COLLECTION):
        raise CommandError(
            Code.InvalidNamespace, "{aggregate: 1} is for pipelines that read no collection, and only it"
        )
    context.namespace = f"{context.db}.{collection}"
    batch_size = _batch_size(args["cursor"])
    request = Request(context.raw, context.namespace, pipeline.without_target())
    if pipeline.target is not None:
        return await write_results(context, pipeline.target, request)
    merged = await open_pipeline(context, request)
    return await first_reply(context, merged, batch_size=batch_size, namespace=context.view or context.namespace)


_NO_COLLECTION = "$cmd.aggregate"


def _collection(code: int, data: bytes) -> str:
    """The collection's name; for `{aggregate: 1}` the name that stands for none."""
    return data[4:-1].decode() if code == 0x02 else _NO_COLLECTION


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
