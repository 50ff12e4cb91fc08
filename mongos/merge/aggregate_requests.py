"""The request that an aggregate command makes, be it run or explained."""

from __future__ import annotations

from docstore.aggregation.pipeline import parse_pipeline
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.shared.stable_api import check_stable_stages
from docstore.commands.stage_scope import check_stage_places
from docstore.errors import Code, CommandError
from docstore.js.scripts import RUNNING
from mongos.merge.pipelines import Request
from mongos.routing.query_context import query_context_of


def request_of(context: Context, raw: bytes, args: Arguments) -> Request:
    """The request that an aggregate command makes; sets the namespace. Errors: those of the pipeline's parsers."""
    collection = _collection(*args.value)
    check_stage_places(context.db, None if collection == _NO_COLLECTION else collection, args["pipeline"])
    if context.api_strict:
        check_stable_stages(args["pipeline"])
    query_context = query_context_of(context, args["let"], args["collation"], scripts=RUNNING)
    pipeline = parse_pipeline(args["pipeline"], query_context=query_context)
    if pipeline.needs_collection == (collection == _NO_COLLECTION):
        raise CommandError(
            Code.InvalidNamespace, "{aggregate: 1} is for pipelines that read no collection, and only it"
        )
    context.namespace = f"{context.db}.{collection}"
    return Request(raw, context.namespace, pipeline)


_NO_COLLECTION = "$cmd.aggregate"


def _collection(code: int, data: bytes) -> str:
    """The collection's name; for `{aggregate: 1}` the name that stands for none."""
    return data[4:-1].decode() if code == 0x02 else _NO_COLLECTION
