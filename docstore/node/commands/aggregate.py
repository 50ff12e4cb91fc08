"""aggregate: a pipeline over a collection, as a cursor; with `explain` what would be done."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from docstore.aggregation.pipeline import Pipeline, parse_pipeline
from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import DocumentList
from docstore.bson import from_python, get_field
from docstore.collection.oplog import OPLOG_NS
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.cursors import ReleasingSource, first_batch
from docstore.node.explaining import explain_aggregate
from docstore.node.node import node_of
from docstore.node.operations_in_progress import in_progress
from docstore.node.pipelines import PipelineSource, open_pipeline
from docstore.node.reading import View, view_of
from docstore.node.requests import COLLATION, CURSOR, LET, batch_size_of, hint_of, language_of
from docstore.node.views import check_reads_input, view_pipeline, viewed

CURRENT_OP = "$currentOp"
"""The stage that makes documents of the process itself; its options choose nothing that this server tells apart."""


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    stages = arguments["pipeline"]
    if stages and get_field(stages[0], CURRENT_OP) is not None:
        return _current_operations(context, arguments, stages)
    language = language_of(context, arguments)
    pipeline = parse_pipeline(stages, language=language)
    _take_namespace(context, arguments, pipeline)
    shown = context.namespace
    resolved = viewed(context)
    if resolved is not None:
        check_reads_input(pipeline, shown)
        pipeline = view_pipeline(resolved, stages, language)
        context.namespace = resolved.ns
    if arguments["explain"]:
        return explain_aggregate(context, pipeline, hint_of(arguments["hint"]), "queryPlanner")
    if arguments["cursor"] is None:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    view = view_of(context)
    if isawaitable(view):
        return _run_later(context, arguments, pipeline, view, shown)
    return _run(context, arguments, pipeline, view, shown)


def _current_operations(context: Context, arguments: Arguments, stages: list[bytes]) -> bytes | Awaitable[bytes]:
    """A pipeline over the operations in progress. Errors: InvalidNamespace outside the admin database."""
    if context.db != "admin" or arguments.value != 1:
        raise CommandError(
            Code.InvalidNamespace, f"{CURRENT_OP} must be run against the 'admin' database with {{aggregate: 1}}"
        )
    node = node_of(context)
    operations = DocumentList([from_python(entry)[1] for entry in in_progress(context)])
    stream = parse_pipeline(stages[1:], language=language_of(context, arguments)).open(
        operations, Environment(clock=node.clock)
    )
    return first_batch(
        context,
        PipelineSource(stream, lambda: None, node.clock),
        batch_size=batch_size_of(arguments),
        namespace="admin.$cmd.aggregate",
    )


async def _run_later(
    context: Context, arguments: Arguments, pipeline: Pipeline, viewing: Awaitable[View], shown: str
) -> Result:
    reply = _run(context, arguments, pipeline, await viewing, shown)
    return await reply if isawaitable(reply) else reply


def _run(
    context: Context, arguments: Arguments, pipeline: Pipeline, view: View, shown: str
) -> bytes | Awaitable[bytes]:
    try:
        source = open_pipeline(context, pipeline, view, hint=hint_of(arguments["hint"]))
    except BaseException:
        view.release()
        raise
    return first_batch(
        context, ReleasingSource(source, view.release), batch_size=batch_size_of(arguments), namespace=shown
    )


def _take_namespace(context: Context, arguments: Arguments, pipeline: Pipeline) -> None:
    """Set what the pipeline reads. Errors: InvalidNamespace when it reads a collection and names none."""
    if isinstance(arguments.value, str):
        context.namespace = f"{context.db}.{arguments.value}"
    elif pipeline.needs_collection or arguments.value != 1:
        raise CommandError(Code.InvalidNamespace, "{aggregate: 1} is for pipelines that read no collection")
    else:
        context.namespace = f"{context.db}.$cmd.aggregate"
    if context.namespace == OPLOG_NS and not pipeline.has_source:
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
