"""bulkWrite on a node: runs of statements of one kind and namespace, each executed like a command of that kind.

* After the first error of an ordered request, or of any request in a transaction, no further statement is executed.
* If the node stops being primary after a run has written, the reply says "interrupted".
* The write concern is awaited once, for the last write.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.bson import document_from, from_python
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.commands.declaration import in_one_piece
from docstore.commands.requests.bulk_write import NAMESPACE, PACE, Run, Tally, read_runs, statements_of
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.errors import CommandError
from docstore.namespace import split_namespace
from docstore.node.entry import run_continuation
from docstore.node.node import node_of
from docstore.node.read.cursors import first_batch
from docstore.node.read.sources import ListSource
from docstore.node.slices import PAUSE, Steps
from docstore.node.write.batches import delete_batch, insert_batch, update_batch
from docstore.node.write.driver import (
    Outcome,
    Statements,
    check_writable,
    drive,
    effective_concern,
    enter_scripts,
    optime_fields,
    wait_for_write,
)
from docstore.node.write.evaluated import enter_long
from docstore.optime import OpTime

_ALL = 0x7FFFFFFF
_NOTHING_LISTED = document_from([("cursor", *from_python({"firstBatch": [], "id": Int64(0), "ns": NAMESPACE}))])


def bulk_written(context: Context, arguments: Arguments) -> Steps[bytes]:
    """Parse the runs and execute them, wait for the write concern, and return the reply.

    Errors: those of `write_in_slices` and `read_runs`, and of statements that cannot be parsed.
    """
    node = node_of(context)
    concern = effective_concern(context, node)
    ordered = arguments["ordered"] or node.transaction is not None
    tally = Tally(arguments["errorsOnly"])
    batch_size = batch_size_of(arguments)
    runs = yield from read_runs(context, arguments)
    _enter(context, runs)
    batches: list[tuple[Context, Statements]] = []
    # All are parsed before one is executed.
    for run in runs:
        batches.append(_batch(context, arguments, run, ordered))
        yield PAUSE
    last: OpTime | None = None
    for index, (run, (inner, statements)) in enumerate(zip(runs, batches, strict=True)):
        work = drive(inner, statements)
        yield from (run_continuation(work) if index else work)
        yield from _take(tally, run, statements.outcome, ordered=ordered)
        last = statements.outcome.last or last
        if ordered and statements.outcome.errors:
            break
        yield PAUSE
    waits = concern.j or concern.w not in (0, 1)
    failed = (yield _acknowledged(context, last, concern))[0] if waits else None
    if not tally.listed and batch_size != 0:
        return tally.reply(_NOTHING_LISTED, failed, optime_fields(node, last))
    cursor = yield from first_batch(
        context,
        ListSource(tally.listed),
        batch_size=_ALL if batch_size is None else batch_size,
        namespace=NAMESPACE,
    )
    return tally.reply(in_one_piece(cursor), failed, optime_fields(node, last))


async def _acknowledged(context: Context, last: OpTime | None, concern: WriteConcern) -> tuple[dict[str, Any] | None]:
    """Return (the writeConcernError or None,); it covers the writes done, even if the request failed afterwards."""
    return (await wait_for_write(context, last, concern),)


def _batch(context: Context, arguments: Arguments, run: Run, ordered: bool) -> tuple[Context, Statements]:
    inner, bypass, let = run.request(context), arguments["bypassDocumentValidation"], arguments["let"]
    if run.kind == "insert":
        return inner, insert_batch(inner, run.statements, ordered=ordered, bypass=bypass)
    if run.kind == "update":
        return update_batch(inner, run.statements, ordered=ordered, bypass=bypass, let=let, counted=True)
    return delete_batch(inner, run.statements, ordered=ordered, let=let, counted=True)


def _enter(context: Context, runs: list[Run]) -> None:
    """Check the namespaces and count the statements before any is executed; offload scripts and large statements.

    Errors: InvalidNamespace, CommandNotSupported, ScriptsWanted.
    """
    node = node_of(context)
    for namespace in {run.namespace for run in runs}:
        check_writable(namespace)
        if node.store.mode is not None:
            node.store.mode.check_documents(node.store.catalog, split_namespace(namespace)[0], "bulkWrite")
    evaluated = [run for run in runs if run.kind != "insert"]
    enter_scripts(statements_of(evaluated))
    enter_long(context, statements_of(evaluated))
    counters = node.counters
    counters.writes += 1
    for run in runs:
        # Counted as the single commands are.
        counters.count(run.kind, len(run.statements))


def _take(tally: Tally, run: Run, outcome: Outcome, *, ordered: bool) -> Steps[None]:
    """Add the results of the executed statements of a run to the tally."""
    errors = dict(outcome.errors)
    upserted = dict(outcome.upserted)
    tally.retried += outcome.retried
    counts, modified = outcome.counts, outcome.modified_counts
    if tally.errors_only and not errors:
        tally.done_all(run.kind, counts or [1] * len(run.statements), modified or (), len(upserted))
        return
    ends = min(errors) + 1 if ordered and errors else len(run.statements)
    for position in range(ends):
        if position % PACE == PACE - 1:
            yield PAUSE
        error = errors.get(position)
        if error is not None:
            tally.fail(run.kind, run.first + position, _described(error))
        else:
            n = 1 if counts is None else counts[position]
            changed = 0 if modified is None else modified[position]
            tally.done(run.kind, run.first + position, n, changed, upserted.get(position))


def _described(error: CommandError) -> dict[str, Any]:
    return {"code": int(error.code), "errmsg": error.message, **error.extra}
