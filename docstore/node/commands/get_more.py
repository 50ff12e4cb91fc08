"""getMore: return the next batch of a cursor.

A tailable cursor with awaitData waits for an entry, for maxTimeMS at most. Other cursors use the remaining time limit
of the command that opened them.
"""

from __future__ import annotations

from docstore.aggregation.change_stream.errors import labelled
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.cursors import ClientCursor
from docstore.commands.declaration import Encoded, Exceptional, Parameter, Response, Result, Type
from docstore.commands.fail_points.failures import check_get_more
from docstore.commands.specs.reads import GET_MORE
from docstore.errors import Code, CommandError
from docstore.js import script_thread
from docstore.node.change_streams.opening import StreamFilling
from docstore.node.change_streams.stream import ChangeStream
from docstore.node.node import node_of
from docstore.node.read.cursors import BATCH_BYTES, Filling, filled_reply, note_returned
from docstore.node.read.sources import HeldBack
from docstore.node.read.tailing import Tail
from docstore.node.slices import Steps, run_steps
from docstore.query.scripts import ScriptsWanted

AWAIT_SECONDS = 1.0
"""Seconds that a tailable cursor waits for data by default."""
_NO_LIMIT = 0x7FFFFFFF


def run(context: Context, arguments: Arguments) -> Response:
    namespace = f"{context.db}.{arguments['collection']}"
    session = context.session
    lsid, transaction = (None, None) if session is None else (session.lsid, session.transaction)
    cursor = context.services.cursors.checkout(arguments.value, namespace, lsid, transaction, context.owner)
    if cursor.apart and script_thread.current() is None and context.services.carry_out is not None:
        cursor.pinned = False
        raise ScriptsWanted
    if context.raw_field("maxTimeMS") is not None and _awaited_source(cursor) is None:
        raise context.services.cursors.refuse_await_limit(cursor)
    node_of(context).counters.getmore += 1
    if cursor.execution is not None:
        context.progress.execution = cursor.execution.since(cursor)
    return run_steps(context, _next_batch(context, arguments, cursor))


def _awaited_source(cursor: ClientCursor) -> Tail | ChangeStream | None:
    """Return the source of a tailable cursor with awaitData; None for other cursors."""
    source = cursor.source.source if isinstance(cursor.source, HeldBack) else cursor.source
    return source if isinstance(source, (Tail, ChangeStream)) and source.await_data else None


def _next_batch(context: Context, arguments: Arguments, cursor: ClientCursor) -> Steps[Result]:
    node, source = node_of(context), cursor.source
    if isinstance(source, HeldBack):
        source = source.source
    tail = _awaited_source(cursor)
    try:
        points = context.services.fail_points
        if points is not None:
            check_get_more(points, context)
        if cursor.time_left is not None and tail is None:
            if cursor.time_left <= 0 or (points is not None and points.times_out()):
                raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
            context.progress.deadline = context.started + cursor.time_left
        most, most_bytes = arguments["batchSize"] or _NO_LIMIT, arguments["batchBytes"]
        if isinstance(source, ChangeStream):
            filling: Filling = StreamFilling(context, source, most, most_bytes)
        else:
            filling = Filling(cursor.source, most, node, most_bytes)
        yield from filling.fill()
        if tail is not None:
            until = node.clock() + (
                context.max_time_ms / 1000 if context.raw_field("maxTimeMS") is not None else AWAIT_SECONDS
            )
            while not filling.count and not filling.exhausted and node.clock() < until:
                yield tail.wait(until - node.clock())
                yield from filling.fill()
    except BaseException as error:
        context.services.cursors.close(cursor)
        if isinstance(source, ChangeStream) and isinstance(error, CommandError):
            raise labelled(error) from None
        raise
    reply = _reply(context, cursor, filling)
    if filling.is_large:
        yield from filling.let_go(context)
    return reply


def _reply(context: Context, cursor: ClientCursor, filling: Filling) -> Encoded:
    cursors = context.services.cursors
    cursor.source = filling.source
    cursor.returned += filling.count
    cursor.batches += 1
    note_returned(context, filling)
    deadline = context.progress.deadline
    if deadline is not None and cursor.time_left is not None:
        cursor.time_left = deadline - node_of(context).clock()
    if filling.exhausted:
        cursors.close(cursor)
    elif cursors.checkin(cursor):
        filling.cursor_id = cursor.id
    return filled_reply(filling, cursor.namespace, first=False, at=cursor.at_cluster_time)


COMMAND = GET_MORE.command(
    run,
    Exceptional(
        "members tail the oplog of another member",
        Parameter("term", Type.LONG, internal=True),
        Parameter("lastKnownCommittedOpTime", Type.OBJECT, internal=True),
    ),
    BATCH_BYTES,
)
