"""distinct: the different values at a path, in their order."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from docstore.aggregation.sorted_runs import RUN_LENGTH
from docstore.bson import Value
from docstore.bson.build import enclosed
from docstore.collection.catalog.views import ResolvedView
from docstore.collection.read.execute import open_find
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.view_stages import filter_stages
from docstore.commands.specs.reads import DISTINCT
from docstore.deferred_free import free_later
from docstore.node.node import node_of
from docstore.node.read.cursors import SLICE_SECONDS, DocumentSource
from docstore.node.read.distinct import DistinctValues
from docstore.node.read.requests import filter_of, hint_of, query_context_of
from docstore.node.read.snapshot import View, view_of
from docstore.node.read.views import open_view, viewed
from docstore.query.find import FindQuery
from docstore.query.value.paths import check_field_path

_STEP_DOCUMENTS = 128
_STEP_BYTES = 1024 * 1024


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    path = arguments["key"]
    check_field_path(path)
    resolved = viewed(context)
    if resolved is not None:
        return _run_on_view(context, arguments, resolved)
    query_context = query_context_of(context, arguments)
    query = FindQuery(
        filter=filter_of(arguments["query"], query_context),
        hint=hint_of(arguments["hint"]),
        needs=frozenset((path,)),
        distinct=path,
    )
    viewing = view_of(context)
    found = DistinctValues(path, query_context.collation)
    if isawaitable(viewing):
        return _run_later(context, query, found, viewing)
    source = _open(context, query, viewing)
    try:
        done = _step(context, source, found)
    except BaseException:
        _close(source, viewing)
        raise
    if not done:
        return _go_on(context, source, viewing, found)
    _close(source, viewing)
    reply = _Reply(context, found)
    return reply.at_once() if len(found) <= RUN_LENGTH else reply.later()


async def _run_later(context: Context, query: FindQuery, found: DistinctValues, viewing: Awaitable[View]) -> Result:
    view = await viewing
    return await _go_on(context, _open(context, query, view), view, found)


async def _go_on(context: Context, source: DocumentSource, view: View, found: DistinctValues) -> Result:
    node = node_of(context)
    try:
        while not _step(context, source, found):
            await node.pause()
            context.operation.check()
    finally:
        _close(source, view)
    return await _Reply(context, found).later()


async def _run_on_view(context: Context, arguments: Arguments, resolved: ResolvedView) -> Result:
    context.progress.whole_ok = True
    node, query_context = node_of(context), query_context_of(context, arguments)
    found = DistinctValues(arguments["key"], query_context.collation)
    source = await open_view(
        context, resolved, filter_stages(arguments["query"]), query_context, hint_of(arguments["hint"])
    )
    try:
        while not _step(context, source, found):
            await node.pause()
            context.operation.check()
    finally:
        source.close()
    return await _Reply(context, found).later()


def _open(context: Context, query: FindQuery, view: View) -> DocumentSource:
    node = node_of(context)
    try:
        source: DocumentSource = open_find(
            node.store.collection(context.namespace), query, view.reader, owned=view.owned, clock=node.clock
        )
    except BaseException:
        view.release()
        raise
    return source


def _close(source: DocumentSource, view: View) -> None:
    source.close()
    view.release()


def _step(context: Context, source: DocumentSource, found: DistinctValues) -> bool:
    clock = node_of(context).clock
    until = clock() + SLICE_SECONDS
    while True:
        batch = source.next_batch(_STEP_DOCUMENTS, _STEP_BYTES, until)
        found.add(batch.documents)
        if batch.exhausted:
            return True
        if clock() >= until:
            return False


class _Reply:
    """The reply with the values: of many it is put together step by step."""

    def __init__(self, context: Context, found: DistinctValues) -> None:
        self._context = context
        self._found = found
        self._parts: list[bytes] = []
        self._count = 0

    def at_once(self) -> bytes:
        for values in self._found.in_order():
            self._add(values)
        return self._made()

    async def later(self) -> bytes:
        node = node_of(self._context)
        for values in self._found.in_order():
            self._add(values)
            if len(self._found) > RUN_LENGTH:
                await node.pause()
                self._context.operation.check()
        free_later(self._found)
        return self._made()

    def _add(self, values: list[Value]) -> None:
        parts: list[bytes] = []
        for position, (code, data) in enumerate(values, self._count):
            parts += (bytes((code,)), b"%d\0" % position, data)
        self._parts.append(b"".join(parts))
        self._count += len(values)

    def _made(self) -> bytes:
        at = self._context.at_cluster_time
        tail = b"" if at is None else b"\x11atClusterTime\0" + at.to_bytes(8, "little")
        return enclosed(b"\x04values\0" + enclosed(b"".join(self._parts)) + tail)


COMMAND = DISTINCT.command(run)
