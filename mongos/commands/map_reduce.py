"""`mapReduce` across shards: each maps and reduces what it owns, the router merges, reduces once more and finalizes.

The shards run the internal form (`docstore.commands.requests.map_reduce`) and keep their results behind cursors, so the
router merges sorted streams and holds a batch of each. Where the results go: `mongos.merge.map_reduce`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.map_reduce import Mode, Output, check_read_level, counts_document, job_of, output_of
from docstore.commands.specs.reads import MAP_REDUCE
from docstore.js.job import Counts, MapReduceJob
from docstore.js.results import InlineResults, KeptResults, reduce_with_existing
from docstore.js.workers import Sink
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from docstore.sharding.routing import Routing
from mongos.merge.map_reduce import existing, open_target
from mongos.merge.remote import RemoteCursor
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.targeting import filter_shards
from mongos.stored_functions import stored_functions


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    check_read_level(context)
    output = output_of(args, context.db)
    query_context = query_context_of(context, collation=args["collation"])
    tree = parse_filter(args["query"], query_context=query_context)
    seconds = None if context.deadline is None else max(context.deadline - router.clock(), 0.001)
    job = job_of(args, seconds, await stored_functions(context), query_context.collation)
    context.services.switches.check_scripting()
    began = router.clock()
    answers = await _first_passes(context, tree)
    mapped = router.clock()
    remotes = await router.remotes(context, answers, None)
    parts = {answer.address: _counts_of(answer) for answer in answers}
    reply: dict[str, Any] = {}
    merging = _Merging(context, job, remotes)
    try:
        if output.mode is Mode.INLINE:
            inline = InlineResults()
            await merging.run(inline.take)
            reply["results"] = [RawBSONDocument(document) for document in inline.documents]
        else:
            await _into_collection(merging, output)
            reply["result"] = output.named(context.db)
    finally:
        router.discard([remote for remote in remotes if not remote.exhausted])
    ended = router.clock()
    mapping = sum(parts.values(), Counts())
    total = Counts(mapping.input, mapping.emit, mapping.reduce + merging.counts.reduce, merging.counts.output)
    return {
        **reply,
        "shardCounts": {address: counts_document(counts) for address, counts in parts.items()},
        "counts": counts_document(total),
        "timeMillis": round((ended - began) * 1000),
        "timing": {"shards": round((mapped - began) * 1000), "final": round((ended - mapped) * 1000)},
    }


async def _first_passes(context: Context, tree: Filter) -> list[ShardReply]:
    router = router_of(context)
    body = forwarded(
        context.raw,
        without=("out", "finalize", "writeConcern"),
        add={"out": {"inline": 1}, "shardedFirstPass": True},
    )

    async def attempt(routing: Routing) -> list[ShardReply]:
        if routing.primary is None:
            return []
        answers: list[ShardReply] = await router.ask(context, routing, filter_shards(routing, tree), body)
        return answers

    return await router.routed(context, attempt)


class _Merging:
    """The second half of one command: `run`, then `counts`."""

    def __init__(self, context: Context, job: MapReduceJob, remotes: list[RemoteCursor]) -> None:
        self.context = context
        self.job = job
        self.counts = Counts()
        self._remotes = remotes

    async def run(self, sink: Sink) -> None:
        runs = [_run_of(remote) for remote in self._remotes]
        self.counts = await router_of(self.context).workers.merge_reduce(self.job, runs, sink)


async def _run_of(remote: RemoteCursor) -> AsyncIterator[list[bytes]]:
    while await remote.fill():
        documents = list(remote.documents)
        remote.documents.clear()
        yield documents


def _counts_of(answer: ShardReply) -> Counts:
    found = get_field(answer.body, "counts")
    assert found is not None, "the internal form answers with counts"
    return Counts(**{name: int(value) for name, value in document_to_python(found[1]).items()})


async def _into_collection(merging: _Merging, output: Output) -> None:
    context = merging.context
    router = router_of(context)
    target = await open_target(context, output)
    kept = KeptResults(router.spill)

    async def sink(documents: list[bytes]) -> None:
        context.operation.check()
        await target.write(documents)

    try:
        if output.mode is Mode.REDUCE:
            await merging.run(kept.take)
            find = partial(existing, context, output)
            again = await reduce_with_existing(router.workers, merging.job, kept, find, sink)
            merging.counts += Counts(reduce=again.reduce)
        else:
            await merging.run(sink)
        await target.end()
    except BaseException:
        await target.give_up()
        raise
    finally:
        kept.close()


COMMAND = MAP_REDUCE.command(run)
