"""distinct: return the distinct values at a path, in order."""

from __future__ import annotations

from functools import partial

from docstore.aggregation.sorted_runs import RUN_LENGTH
from docstore.bson.build import array_from, enclosed
from docstore.collection.catalog.views import ResolvedView
from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.collection.read.execute import open_find
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
from docstore.commands.requests.view_stages import filter_stages
from docstore.commands.specs.reads import DISTINCT
from docstore.deferred_free import free_later
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.at_once import distinct_at_once
from docstore.node.read.distinct import DistinctValues
from docstore.node.read.requests import filter_of, hint_of, indexes_of, query_context_of
from docstore.node.read.snapshot import view_of
from docstore.node.read.sources import DocumentSource, ReleasingSource
from docstore.node.read.statement_time import STATEMENT_TIME
from docstore.node.read.views import open_view, viewed
from docstore.node.slices import PAUSE, Steps, run_steps, step_end
from docstore.node.upkeep.execution import execution_of
from docstore.query.context import QueryContext
from docstore.query.find import DistinctPath, FindQuery
from docstore.query.pausing import PAUSED, REFUSED, allowing
from docstore.query.value.paths import check_field_path

_STEP_DOCUMENTS = 128
_STEP_BYTES = 1024 * 1024


def run(context: Context, arguments: Arguments) -> Response:
    check_field_path(arguments["key"])
    if context.namespace == OPLOG_NS:
        raise CommandError(Code.NotImplemented, "the oplog can be read by find, not by distinct")
    values = distinct_at_once(context, node_of(context), arguments)
    if values is not None:
        ordered = values.few_in_order()
        return (
            run_steps(context, _reply(context, values)) if ordered is None else _enclosed(context, array_from(ordered))
        )
    return run_steps(context, _run(context, arguments, viewed(context)))


def _run(context: Context, arguments: Arguments, resolved: ResolvedView | None) -> Steps[Result]:
    query_context = query_context_of(context, arguments)
    distinct_values = DistinctValues(arguments["key"], query_context.collation)
    if resolved is None:
        source = yield from _open(context, arguments, query_context)
    else:
        context.progress.whole_ok = True
        stages, hint = filter_stages(arguments["query"]), hint_of(arguments["hint"])
        source = yield from open_view(context, resolved, stages, query_context, hint)
    node = node_of(context)
    try:
        until = step_end(node)
        while True:
            batch = allowing(REFUSED, partial(source.next_batch, _STEP_DOCUMENTS, _STEP_BYTES, until))
            allowing(PAUSED, distinct_values.add, batch.documents)
            if batch.exhausted:
                break
            if node.clock() >= until:
                yield PAUSE
                until = step_end(node)
    finally:
        source.close()
    return (yield from _reply(context, distinct_values))


def _open(context: Context, arguments: Arguments, query_context: QueryContext) -> Steps[DocumentSource]:
    node, path = node_of(context), arguments["key"]
    query = FindQuery(
        filter=filter_of(arguments["query"], query_context),
        hint=hint_of(arguments["hint"]),
        needs=frozenset((path,)),
        distinct=DistinctPath(path, by_element=True),
    )
    view = yield from view_of(context)
    try:
        collection = node.store.collection(context.namespace)
        execution = execution_of(context)
        source = open_find(
            collection,
            query,
            view.reader,
            owned=view.owned,
            clock=node.clock,
            exact=execution.exact,
            indexes=indexes_of(context, collection),
        )
        execution.add(source.plan_stats)
    except BaseException:
        view.release()
        raise
    return ReleasingSource(source, view.release)


def _reply(context: Context, distinct_values: DistinctValues) -> Steps[bytes]:
    """Return the reply with the values; a long one is assembled in steps."""
    parts: list[bytes] = []
    count = 0
    for values in distinct_values.in_order():
        part: list[bytes] = []
        for position, (code, data) in enumerate(values, count):
            part += (bytes((code,)), b"%d\0" % position, data)
        parts.append(b"".join(part))
        count += len(values)
        yield PAUSE
    if len(distinct_values) > RUN_LENGTH:
        free_later(distinct_values)
    return _enclosed(context, enclosed(b"".join(parts)))


def _enclosed(context: Context, values: bytes) -> bytes:
    at = context.at_cluster_time
    tail = b"" if at is None else b"\x11atClusterTime\0" + at.to_bytes(8, "little")
    return enclosed(b"\x04values\0" + values + tail)


COMMAND = DISTINCT.command(run, STATEMENT_TIME)
