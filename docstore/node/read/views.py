"""Views: their definition, their rejection by commands that need a collection, and reads as pipelines.

A read of a view runs the view's stages and then its own over the underlying collection; the cursor has the view's name.
For a router a view is not read: the error carries the resolved view, and the router reads the underlying collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bson.raw_bson import RawBSONDocument

from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.bson import elements
from docstore.collection.catalog.views import NEVER_IN_VIEWS, ResolvedView, ViewDefinition, find_view, resolve_view
from docstore.commands.context import Context
from docstore.commands.requests.aggregate import check_stage_places
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode, node_of
from docstore.node.pipeline.run import open_pipeline
from docstore.node.read.requests import other_collation, query_context_at
from docstore.node.read.snapshot import view_of
from docstore.node.read.sources import DocumentSource, ReleasingSource
from docstore.node.slices import Steps
from docstore.node.timeseries.indexes import bucket_hint
from docstore.node.timeseries.series import series_over
from docstore.query.context import QueryContext
from docstore.query.find import Hint
from docstore.query.value.collation import SIMPLE, Collation

_WRITING_STAGES = ("$out", "$merge")


def checked_definition(
    node: DataNode, namespace: str, on: str, pipeline: Sequence[bytes], collation: Collation | None
) -> ViewDefinition:
    """Return the definition of a view, checked.

    Errors: BadValue and InvalidNamespace for `viewOn`, OptionNotSupportedOnView for stages that write, those of the
    pipeline's parser.
    """
    if not on:
        raise CommandError(Code.BadValue, "'viewOn' cannot be empty")
    if "$" in on or "\0" in on or on.startswith(".") or on.endswith("."):
        raise CommandError(Code.InvalidNamespace, f"invalid name for 'viewOn': {on}")
    names = [next((name for name, _, _ in elements(stage)), "") for stage in pipeline]
    for position, name in enumerate(names):
        if name in _WRITING_STAGES:
            raise CommandError(
                Code.OptionNotSupportedOnView,
                f"The aggregation stage {name} in location {position} of the pipeline cannot be used in the view "
                f"definition of {namespace} because it writes to disk",
            )
    database = namespace.partition(".")[0]
    check_stage_places(database, on, pipeline)
    parsed = parse_pipeline(pipeline, query_context=replace(query_context_at(node, None), collation=collation))
    if parsed.is_change_stream:
        raise CommandError(
            Code.OptionNotSupportedOnView,
            f"Invalid pipeline for view {namespace}: $changeStream cannot be used in a view definition",
        )
    for name in names:
        if name in NEVER_IN_VIEWS:
            raise CommandError(Code.InvalidNamespace, f"'{name}' cannot be used in a view definition")
    return ViewDefinition(namespace, f"{database}.{on}", tuple(pipeline), collation)


def viewed(context: Context) -> ResolvedView | None:
    """Return the resolved view if the request's namespace is a view; else None.

    Errors: ViewDepthLimitExceeded; for routers CommandOnShardedViewNotSupportedOnMongod.
    """
    view = resolve_view(node_of(context).store, context.namespace)
    if view is not None and context.shard_version is not None:
        rules = SIMPLE if view.collation is None else view.collation.raw
        stages = [RawBSONDocument(stage) for stage in view.pipeline]
        resolved = {"ns": view.ns, "pipeline": stages, "collation": RawBSONDocument(rules)}
        raise CommandError(
            Code.CommandOnShardedViewNotSupportedOnMongod,
            "a view is read by the router itself",
            extra={"resolvedView": resolved},
        )
    return view


def view_pipeline(resolved: ResolvedView, stages: Sequence[bytes], query_context: QueryContext) -> Pipeline:
    """Parse the stages of a view, followed by those of a request."""
    return parse_pipeline([*resolved.pipeline, *stages], query_context=query_context)


def check_other_views(context: Context, pipeline: Pipeline) -> None:
    """Check the views that the stages read. Errors: OptionNotSupportedOnView for one with another collation."""
    store = node_of(context).store
    for name in pipeline.other_collections:
        namespace = f"{context.db}.{name}"
        view = None if namespace in store.catalog.collections else find_view(store, namespace)
        if view is not None and view.collation != pipeline.query_context.collation:
            raise other_collation(namespace)


def check_reads_input(pipeline: Pipeline) -> None:
    """Reject a pipeline over a view whose first stage produces documents itself. Errors: Location40602."""
    if pipeline.has_source:
        name = elements(pipeline.stages[0].raw)[0][0]
        raise CommandError(40602, f"{name} is only valid as the first stage in a pipeline")


def is_about_view(pipeline: Pipeline) -> bool:
    """Return True if the pipeline describes the view itself (`$collStats`) instead of reading documents."""
    return pipeline.has_source and elements(pipeline.stages[0].raw)[0][0] == "$collStats"


def below_hint(context: Context, resolved: ResolvedView, hint: Hint | None) -> Hint | None:
    """Return the hint for the underlying collection; over a time series, that of its buckets."""
    buckets = node_of(context).store.collection(resolved.ns)
    series = None if buckets is None else series_over(buckets)
    return hint if series is None else bucket_hint(series, hint)


def open_view(
    context: Context, resolved: ResolvedView, stages: Sequence[bytes], query_context: QueryContext, hint: Hint | None
) -> Steps[DocumentSource]:
    """Return the source of a request's stages over a view."""
    hint = below_hint(context, resolved, hint)
    pipeline = view_pipeline(resolved, stages, query_context)
    context = context.about(resolved.ns)
    view = yield from view_of(context)
    try:
        source = open_pipeline(context, pipeline, view, hint=hint)
    except BaseException:
        view.release()
        raise
    return ReleasingSource(source, view.release)
