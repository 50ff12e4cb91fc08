"""aggregate: run a pipeline and return a cursor, or with `explain` its plan."""

from __future__ import annotations

from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.aggregation.stages.write import target_of, without_target
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
from docstore.commands.requests.aggregate import (
    check_explained,
    check_output_concern,
    check_stable_stages,
    check_stage_places,
    collection_of,
)
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.sessions.transactions import check_stages
from docstore.commands.specs.reads import AGGREGATE
from docstore.errors import Code, CommandError
from docstore.node.change_streams.opening import open_change_stream
from docstore.node.explain.change_stream import explain_change_stream
from docstore.node.explain.pipeline import explain_aggregate
from docstore.node.explain.shown_command import command_below
from docstore.node.node import node_of
from docstore.node.pipeline.at_once import aggregate_at_once
from docstore.node.pipeline.beside import FROM_MONGOS, OTHER_VERSIONS, check_named, may_read_others, view_with_others
from docstore.node.pipeline.out import write_results
from docstore.node.pipeline.run import open_pipeline
from docstore.node.read.cursors import BATCH_BYTES, LARGE_EVENTS, first_batch
from docstore.node.read.requests import hint_of, query_context_of
from docstore.node.read.sources import ReleasingSource
from docstore.node.read.statement_time import STATEMENT_TIME
from docstore.node.read.views import (
    below_hint,
    check_other_views,
    check_reads_input,
    is_about_view,
    view_pipeline,
    viewed,
)
from docstore.node.slices import Steps, run_steps
from docstore.query.find import Hint


def run(context: Context, arguments: Arguments) -> Response:
    stages = arguments["pipeline"]
    if node_of(context).transaction is not None:
        check_stages(stages)
    if arguments["explain"]:
        check_explained(arguments, has_write_concern=context.explicit_write_concern)
    collection = collection_of(arguments.value)
    if collection is not None and may_read_others(context, arguments):
        reply = aggregate_at_once(context, node_of(context), arguments, f"{context.db}.{collection}")
        if reply is not None:
            return reply
    check_stage_places(context.db, collection, stages)
    if context.api_strict:
        check_stable_stages(stages)
    query_context = query_context_of(context, arguments)
    pipeline = parse_pipeline(stages, query_context=query_context)
    if pipeline.is_change_stream:
        return _run_change_stream(context, arguments, collection, pipeline)
    context = context.about(_namespace(context, collection, pipeline))
    client_namespace = context.namespace
    resolved = None if is_about_view(pipeline) else viewed(context)
    if resolved is not None:
        check_reads_input(pipeline)
        pipeline = view_pipeline(resolved, stages, query_context)
        context = context.about(resolved.ns)
    if not arguments["explain"]:
        check_named(context, arguments, pipeline)
    check_other_views(context, pipeline)
    if target_of(pipeline) is not None:
        check_output_concern(context)
    hint = hint_of(arguments["hint"])
    if resolved is not None:
        hint = below_hint(context, resolved, hint)
    if arguments["explain"]:
        command = None if resolved is None else command_below(resolved, stages, arguments)
        return explain_aggregate(context, pipeline, hint, "queryPlanner", command)
    if arguments["cursor"] is None:
        raise CommandError(
            Code.FailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument"
        )
    return run_steps(context, _run(context, arguments, pipeline, client_namespace, hint))


def _run_change_stream(context: Context, arguments: Arguments, collection: str | None, pipeline: Pipeline) -> Response:
    """Return the reply of an aggregate that opens a change stream."""
    context = context.about(f"{context.db}.{'$cmd.aggregate' if collection is None else collection}")
    if arguments["explain"]:
        return explain_change_stream(context, collection, pipeline)
    if arguments["cursor"] is None:
        raise CommandError(Code.FailedToParse, "The 'cursor' option is required")
    return run_steps(context, open_change_stream(context, arguments, collection, pipeline))


def _run(
    context: Context, arguments: Arguments, pipeline: Pipeline, namespace: str, hint: Hint | None
) -> Steps[Result]:
    view = yield from view_with_others(context, arguments)
    try:
        source = open_pipeline(
            context,
            without_target(pipeline),
            view,
            hint=hint,
            on_disk=arguments["allowDiskUse"],
        )
    except BaseException:
        view.release()
        raise
    releasing = ReleasingSource(source, view.release)
    target = target_of(pipeline)
    if target is not None:
        bypass = arguments["bypassDocumentValidation"]
        return (yield from write_results(context, target, releasing, bypass=bypass, shown=namespace))
    opened = first_batch(
        context,
        releasing,
        batch_size=batch_size_of(arguments),
        namespace=namespace,
        max_bytes=arguments["batchBytes"],
    )
    return (yield from opened)


def _namespace(context: Context, collection: str | None, pipeline: Pipeline) -> str:
    """Return the namespace that the pipeline reads.

    Errors: InvalidNamespace if it needs a collection and none is named.
    """
    if collection is not None:
        if not pipeline.needs_collection:
            raise CommandError(Code.InvalidNamespace, "the pipeline can only be run with {aggregate: 1}")
        return f"{context.db}.{collection}"
    if pipeline.needs_collection:
        raise CommandError(Code.InvalidNamespace, "{aggregate: 1} is for pipelines that read no collection")
    return f"{context.db}.$cmd.aggregate"


COMMAND = AGGREGATE.command(run, BATCH_BYTES, LARGE_EVENTS, OTHER_VERSIONS, STATEMENT_TIME, FROM_MONGOS)
