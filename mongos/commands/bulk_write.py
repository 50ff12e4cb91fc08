"""`bulkWrite`: its runs one after another, each routed as a command of its kind on its collection is."""

from __future__ import annotations

import asyncio
from typing import Any

from docstore.bson.convert import from_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.bulk_write import NAMESPACE, PACE, Run, Tally, read_runs
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.specs.writes import BULK_WRITE
from docstore.errors import CommandError, interrupted
from mongos.merge.batches import UNBOUNDED, First, first_reply
from mongos.merge.merged import MergedCursor, Shape
from mongos.router import router_of
from mongos.routing.writes import Outcome
from mongos.statements import DELETES, INSERTS, UPDATES, carry_out, in_language

_KINDS = {"update": UPDATES, "delete": DELETES}


async def run(context: Context, args: Arguments) -> bytes:
    tally = Tally(args["errorsOnly"])
    # A transaction ends with the first error.
    session = context.session
    ordered = args["ordered"] or (session is not None and session.transaction is not None)
    concern_error: dict[str, Any] | None = None
    counters = router_of(context).counters
    counters.writes += 1
    for index, operation in enumerate(await _read(context, args)):
        counters.count(operation.kind, len(operation.statements))
        try:
            outcome = await _carry_out(context, args, operation, ordered)
        except CommandError as error:
            raise (interrupted(error) if index else error) from error.__cause__
        await _take(tally, operation, outcome)
        concern_error = concern_error or outcome.concern_error
        if ordered and outcome.errors:
            break
    batch_size = batch_size_of(args)
    router = router_of(context)
    listed = MergedCursor([], Shape(), router.discard, scheduler=router.scheduler, documents=tally.listed)
    first = First(UNBOUNDED if batch_size is None else batch_size, namespace=NAMESPACE)
    cursor = await first_reply(context, listed, first)
    return tally.reply(cursor, concern_error)


async def _read(context: Context, args: Arguments) -> list[Run]:
    """Return the runs; pauses for other requests. Errors: those of `read_runs`."""
    reading = read_runs(context, args)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            runs: list[Run] = end.value
            return runs
        await asyncio.sleep(0)


async def _carry_out(context: Context, args: Arguments, each: Run, ordered: bool) -> Outcome:
    inner = each.request(context).derived(raw=each.command(context, ordered=ordered))
    if each.kind == "insert":
        return await carry_out(inner, INSERTS, each.statements, ordered=ordered, counted=True)
    kind = in_language(inner, _KINDS[each.kind], args["let"])
    return await carry_out(inner, kind, each.statements, ordered=ordered, counted=True)


async def _take(tally: Tally, each: Run, outcome: Outcome) -> None:
    """Add the outcome of a run's executed statements to the tally."""
    errors = {row["index"]: row for row in outcome.errors}
    upserted = {row["index"]: from_python(row["_id"]) for row in outcome.upserted}
    tally.retried += sorted(set(outcome.retried))
    counts = outcome.by_statement or {}
    for position, index in enumerate(sorted(counts.keys() | errors.keys())):
        if position % PACE == PACE - 1:
            await asyncio.sleep(0)
        if index in errors:
            tally.fail(each.kind, each.first + index, errors[index])
        else:
            n, modified = counts[index]
            tally.done(each.kind, each.first + index, n, modified, upserted.get(index))


COMMAND = BULK_WRITE.command(run)
