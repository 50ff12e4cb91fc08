"""count: return the number of matches; without a filter, the collection's counter, which every write keeps exact."""

from __future__ import annotations

from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.collection.catalog.views import ResolvedView
from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.collection.read.counting import open_count
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
from docstore.commands.requests.view_stages import filter_stages, range_stages
from docstore.commands.specs.reads import COUNT
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.at_once import count_at_once
from docstore.node.read.cursors import MAX_BATCH_BYTES
from docstore.node.read.requests import count_query_of, hint_of, indexes_of, query_context_of
from docstore.node.read.snapshot import view_of
from docstore.node.read.statement_time import STATEMENT_TIME
from docstore.node.read.views import open_view, viewed
from docstore.node.slices import PAUSE, Steps, run_steps, step_end, until_done
from docstore.node.upkeep.collection_stats import number, stored_count
from docstore.node.upkeep.execution import execution_of

_STEP_DOCUMENTS = 1000


def run(context: Context, arguments: Arguments) -> Response:
    if context.namespace == OPLOG_NS:
        return {"n": number(_count_log(context, arguments))}
    counted = count_at_once(context, node_of(context), arguments)
    if counted is not None:
        return {"n": number(counted)}
    resolved = viewed(context)
    return run_steps(
        context, _count(context, arguments) if resolved is None else _count_view(context, arguments, resolved)
    )


def _count_log(context: Context, arguments: Arguments) -> int:
    if arguments["query"] not in (None, EMPTY_DOCUMENT) or arguments["skip"] or arguments["limit"]:
        raise CommandError(Code.NotImplemented, "the oplog can be counted as a whole only, and read by find")
    stored = stored_count(node_of(context), context.namespace)
    return 0 if stored is None else stored.count


def _count(context: Context, arguments: Arguments) -> Steps[Result]:
    # Parsing may yield to other tasks: view definition and indexes must be of one moment.
    query = count_query_of(arguments, query_context_of(context, arguments))
    view = yield from view_of(context)
    node = node_of(context)
    try:
        collection = node.store.collection(context.namespace)
        indexes = indexes_of(context, collection)
        execution = execution_of(context)
        exact = execution.exact
        counting = open_count(
            collection, query, view.reader, owned=view.owned, clock=node.clock, indexes=indexes, exact=exact
        )
        execution.add(counting.plan_stats)
        yield from until_done(node, counting.advance)
    finally:
        view.release()
    return {"n": number(counting.count)}


def _count_view(context: Context, arguments: Arguments, resolved: ResolvedView) -> Steps[Result]:
    context.progress.whole_ok = True
    stages = filter_stages(arguments["query"]) + range_stages(arguments["skip"], abs(arguments["limit"]))
    query_context, hint = query_context_of(context, arguments), hint_of(arguments["hint"])
    source = yield from open_view(context, resolved, stages, query_context, hint)
    count = 0
    try:
        while True:
            batch = source.next_batch(_STEP_DOCUMENTS, MAX_BATCH_BYTES, step_end(node_of(context)))
            count += len(batch.documents)
            if batch.exhausted:
                return {"n": number(count)}
            yield PAUSE
    finally:
        source.close()


COMMAND = COUNT.command(run, STATEMENT_TIME)
