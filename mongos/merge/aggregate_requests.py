"""The request that an aggregate command makes, be it run or explained."""

from __future__ import annotations

from docstore.aggregation.parse import parse_pipeline
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.aggregate import (
    check_stable_stages,
    check_stage_places,
    check_stream_concern,
    collection_of,
)
from docstore.errors import Code, CommandError
from docstore.js.scripts import RUNNING
from mongos.merge.pipelines import Request
from mongos.routing.query_context import query_context_of


def request_of(context: Context, raw: bytes, args: Arguments) -> Request:
    """Return the request of an aggregate command. Errors: those of the pipeline's parsers."""
    collection = collection_of(args.value)
    check_stage_places(context.db, collection, args["pipeline"])
    if context.api_strict:
        check_stable_stages(args["pipeline"])
    query_context = query_context_of(context, args["let"], args["collation"], scripts=RUNNING)
    pipeline = parse_pipeline(args["pipeline"], query_context=query_context)
    if pipeline.is_change_stream:
        check_stream_concern(context)
    elif pipeline.needs_collection == (collection is None):
        raise CommandError(
            Code.InvalidNamespace, "{aggregate: 1} is for pipelines that read no collection, and only it"
        )
    return Request(raw, f"{context.db}.{'$cmd.aggregate' if collection is None else collection}", pipeline)
