"""find: return the matches of a filter, as a cursor.

* A lookup by `_id` only is answered in one step without planning.
* A result of one batch needs no cursor; a longer one keeps its snapshot until the cursor ends.
* `local.oplog.rs` is read from the oplog itself; it and capped collections support tailable cursors.
"""

from __future__ import annotations

from functools import partial

import cython

from docstore.bson import Value
from docstore.buffers import OperationBuffers
from docstore.collection.catalog.views import ResolvedView
from docstore.collection.collection import Collection
from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.collection.read.execute import open_find
from docstore.collection.read.sorter import SortMemory
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Encoded, Response
from docstore.commands.requests.view_stages import batch_size_on_view, find_stages, natural_sort
from docstore.commands.specs.reads import FIND
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.pipeline.at_once import find_on_view_at_once
from docstore.node.read.at_once import find_at_once
from docstore.node.read.cursors import BATCH_BYTES, first_batch, whole_reply
from docstore.node.read.oplog import open_oplog
from docstore.node.read.requests import (
    CursorOptions,
    cursor_options_of,
    find_query_of,
    hint_of,
    indexes_of,
    query_context_of,
)
from docstore.node.read.snapshot import StepState, View, newest, state_at_once, view_of
from docstore.node.read.sources import ReleasingSource
from docstore.node.read.statement_time import STATEMENT_TIME
from docstore.node.read.tailing import CappedLog, Tail
from docstore.node.read.views import open_view, viewed
from docstore.node.slices import Steps, run_steps
from docstore.node.upkeep.execution import execution_of, is_profiled
from docstore.node.write.identity import identity_in
from docstore.query.find import FindQuery, Hint
from docstore.query.projection.projection import metadata_kinds
from docstore.query.sort import parse_sort
from docstore.spill import SpillFile

_LEAN = frozenset(("filter", "limit", "singleBatch", "batchBytes"))


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    node.counters.query += 1
    if node.transaction is not None:
        _check_in_transaction(context, arguments)
    if context.namespace == OPLOG_NS:
        query = find_query_of(arguments, query_context_of(context, arguments))
        return run_steps(context, open_oplog(context, query, cursor_options_of(arguments)))
    if context.namespace not in node.store.catalog.collections:
        resolved = viewed(context)
        if resolved is not None:
            view_reply = find_on_view_at_once(context, node, arguments, resolved)
            if view_reply is not None:
                return view_reply
            return run_steps(context, _run_on_view(context, arguments, resolved))
    identity = _identity(arguments)
    if identity is None:
        collection = node.store.collection(context.namespace)
        reply = None if collection is None else find_at_once(context, node, arguments, collection)
        if reply is not None:
            return reply
    elif not is_profiled(context):
        collection = node.store.collection(context.namespace)
        if collection is not None:
            state = state_at_once(context, collection)
            if state is not None:
                return whole_reply(context, _by_id(collection, identity, state))
        elif newest(context)[0]:
            return whole_reply(context, [], catalog=True)
    return run_steps(context, _run(context, arguments))


def _check_in_transaction(context: Context, arguments: Arguments) -> None:
    """Check a find in a transaction. Errors: InvalidOptions for a tailable cursor, 51071 for `system.views`."""
    if arguments["tailable"]:
        raise CommandError(Code.InvalidOptions, "It is illegal to open a tailable cursor in a transaction")
    if context.namespace.endswith(".system.views"):
        raise CommandError(51071, "Cannot query system.views within a transaction")


def _run(context: Context, arguments: Arguments) -> Steps[Encoded]:
    # Parsing may yield to other tasks: view definition and indexes must be of one moment.
    query = find_query_of(arguments, query_context_of(context, arguments))
    options = cursor_options_of(arguments)
    view = yield from view_of(context)
    node = node_of(context)
    try:
        collection = node.store.collection(context.namespace)
        indexes = indexes_of(context, collection)
        tailed = collection if options.tailable else None
        spill = SpillFile(node.settings.dbpath) if query.sort.fields and arguments["allowDiskUse"] else None
        buffers = OperationBuffers() if query.sort.fields else None
        if tailed is None:
            execution = execution_of(context)
            source = open_find(
                collection,
                query,
                view.reader,
                owned=view.owned,
                clock=node.clock,
                exact=execution.exact,
                memory=SortMemory(spill, buffers),
                indexes=indexes,
            )
            execution.add(source.plan_stats)
    except BaseException:
        view.release()
        raise
    if tailed is not None:
        view.release()
        return (yield from _tail(context, tailed, query, options))
    opened = first_batch(
        context,
        ReleasingSource(source, view.release if buffers is None else partial(_release, view, spill, buffers)),
        batch_size=options.batch_size,
        single=options.single,
        no_timeout=options.no_timeout,
        catalog=collection is None,
        max_bytes=arguments["batchBytes"],
    )
    return (yield from opened)


def _release(view: View, spill: SpillFile | None, buffers: OperationBuffers) -> None:
    view.release()
    buffers.close()
    if spill is not None:
        spill.close()


def _tail(context: Context, collection: Collection, query: FindQuery, options: CursorOptions) -> Steps[Encoded]:
    """Open a tailable cursor on a capped collection. Errors: BadValue."""
    node = node_of(context)
    if not collection.options.capped:
        raise CommandError(Code.BadValue, "tailable cursor requested on non capped collection")
    backwards = query.sort.natural < 0 or (query.hint is not None and query.hint.natural < 0)
    if query.sort.fields or backwards:
        raise CommandError(Code.BadValue, "cannot use tailable option with a sort other than {$natural: 1}")
    if query.return_key or query.show_record_id or metadata_kinds(query.projection):
        raise CommandError(Code.NotImplemented, "a tailable cursor gives documents as they are stored")
    log = CappedLog(node, collection)
    source = Tail(node, log, query, start=0, await_data=options.await_data, ends_empty=True)
    return first_batch(
        context, source, batch_size=options.batch_size, single=options.single, no_timeout=options.no_timeout
    )


def _run_on_view(context: Context, arguments: Arguments, resolved: ResolvedView) -> Steps[Encoded]:
    namespace = context.namespace
    natural = natural_sort(arguments)
    hint = hint_of(arguments["hint"]) if natural is None else Hint(natural=parse_sort(natural).natural)
    source = yield from open_view(context, resolved, find_stages(arguments), query_context_of(context, arguments), hint)
    return (
        yield from first_batch(
            context,
            source,
            batch_size=batch_size_on_view(arguments),
            namespace=namespace,
            max_bytes=arguments["batchBytes"],
        )
    )


@cython.cfunc
def _identity(arguments: Arguments) -> Value | None:
    """Return the `_id` if the request is a lookup by `_id` only; else None."""
    sent = arguments.sent_values()
    raw = sent.get("filter")
    identity = None if raw is None else identity_in(raw)
    return identity if identity is not None and sent.keys() <= _LEAN else None


@cython.cfunc
def _by_id(collection: Collection, identity: Value, state: StepState) -> list[bytes]:
    record = collection.look_up(state.reader, identity)
    if record is None or (state.owned is not None and not state.owned.matches(record[1])):
        return []
    return [record[1]]


COMMAND = FIND.command(run, BATCH_BYTES, STATEMENT_TIME)
