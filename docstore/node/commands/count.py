"""count: how many documents match; without a filter from the collection's counter, which every write keeps exact."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from docstore.collection.catalog.views import ResolvedView
from docstore.collection.read.counting import Counting, open_count
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.view_stages import filter_stages, range_stages
from docstore.commands.specs.reads import COUNT
from docstore.node.node import node_of
from docstore.node.read.cursors import MAX_BATCH_BYTES, SLICE_SECONDS
from docstore.node.read.requests import count_query_of, hint_of, query_context_of
from docstore.node.read.snapshot import View, view_of
from docstore.node.read.views import open_view, viewed
from docstore.node.upkeep.collection_stats import number

_STEP_DOCUMENTS = 1000


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    resolved = viewed(context)
    if resolved is not None:
        return _count_view(context, arguments, resolved)
    view = view_of(context)
    if isawaitable(view):
        return _run_later(context, arguments, view)
    counting = _open(context, arguments, view)
    try:
        done = counting.advance(_until(context))
    except BaseException:
        view.release()
        raise
    if not done:
        return _go_on(context, counting, view)
    view.release()
    return {"n": number(counting.count)}


async def _run_later(context: Context, arguments: Arguments, viewing: Awaitable[View]) -> Result:
    view = await viewing
    return await _go_on(context, _open(context, arguments, view), view)


async def _go_on(context: Context, counting: Counting, view: View) -> Result:
    node = node_of(context)
    try:
        while not counting.advance(_until(context)):
            await node.pause()
            context.operation.check()
    finally:
        view.release()
    return {"n": number(counting.count)}


async def _count_view(context: Context, arguments: Arguments, resolved: ResolvedView) -> Result:
    context.progress.whole_ok = True
    stages = filter_stages(arguments["query"]) + range_stages(arguments["skip"], abs(arguments["limit"]))
    node = node_of(context)
    source = await open_view(
        context, resolved, stages, query_context_of(context, arguments), hint_of(arguments["hint"])
    )
    found = 0
    try:
        while True:
            batch = source.next_batch(_STEP_DOCUMENTS, MAX_BATCH_BYTES, _until(context))
            found += len(batch.documents)
            if batch.exhausted:
                return {"n": number(found)}
            await node.pause()
            context.operation.check()
    finally:
        source.close()


def _until(context: Context) -> float:
    return node_of(context).clock() + SLICE_SECONDS


def _open(context: Context, arguments: Arguments, view: View) -> Counting:
    node = node_of(context)
    try:
        return open_count(
            node.store.collection(context.namespace),
            count_query_of(arguments, query_context_of(context, arguments)),
            view.reader,
            owned=view.owned,
            clock=node.clock,
        )
    except BaseException:
        view.release()
        raise


COMMAND = COUNT.command(run)
