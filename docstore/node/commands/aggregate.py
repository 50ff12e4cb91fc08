"""aggregate: a pipeline over a collection, as a cursor; with `explain` what would be done."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from docstore.aggregation.pipeline import Pipeline, parse_pipeline
from docstore.collection.oplog import OPLOG_NS
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.cursors import ReleasingSource, first_batch
from docstore.node.explaining import explain_aggregate
from docstore.node.pipelines import open_pipeline
from docstore.node.reading import View, view_of
from docstore.node.requests import COLLATION, CURSOR, LET, batch_size_of, hint_of


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    pipeline = parse_pipeline(arguments["pipeline"])
    _take_namespace(context, arguments, pipeline)
    if arguments["explain"]:
        return explain_aggregate(context, pipeline, hint_of(arguments["hint"]), "queryPlanner")
    if arguments["cursor"] is None:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    view = view_of(context)
    if isawaitable(view):
        return _run_later(context, arguments, pipeline, view)
    return _run(context, arguments, pipeline, view)


async def _run_later(
    context: Context, arguments: Arguments, pipeline: Pipeline, viewing: Awaitable[View]
) -> Result:
    reply = _run(context, arguments, pipeline, await viewing)
    return await reply if isawaitable(reply) else reply


def _run(context: Context, arguments: Arguments, pipeline: Pipeline, view: View) -> bytes | Awaitable[bytes]:
    try:
        source = open_pipeline(context, pipeline, view, hint=hint_of(arguments["hint"]))
    except BaseException:
        view.release()
        raise
    return first_batch(context, ReleasingSource(source, view.release), batch_size=batch_size_of(arguments))


def _take_namespace(context: Context, arguments: Arguments, pipeline: Pipeline) -> None:
    """Set what the pipeline reads. Errors: InvalidNamespace when it reads a collection and names none."""
    if isinstance(arguments.value, str):
        context.namespace = f"{context.db}.{arguments.value}"
    elif pipeline.needs_collection or arguments.value != 1:
        raise CommandError(Code.InvalidNamespace, "{aggregate: 1} is for pipelines that read no collection")
    else:
        context.namespace = f"{context.db}.$cmd.aggregate"
    if context.namespace == OPLOG_NS:
        raise CommandError(Code.NotImplemented, "the oplog can be read by find, not by aggregate")


COMMAND = Command(
    "aggregate", run, privilege=Privilege("find", Resource.COLLECTION), role=Role.SECONDARY_OK,
    value=(Type.COLLECTION, Type.INT), read_concern=True, stable=True,
    parameters=(
        Parameter("pipeline", Type.DOCUMENTS, required=True),
        CURSOR,
        Parameter("explain", Type.BOOL, default=False),
        Parameter("allowDiskUse", Type.SAFE_BOOL, default=False),
        Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False),
        Parameter("hint", Type.ANY),
        COLLATION,
        LET,
    ),
    help="run a pipeline over a collection",
)  # fmt: skip
