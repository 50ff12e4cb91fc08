"""`mapReduce` across shards: each maps and reduces what it owns, the router merges, reduces once more and finalizes.

The shards run the internal form (`docstore.commands.map_reduce`), so the router merges sorted streams. The output of
`replace` is written to a temporary collection that is renamed when it is complete: the old output or the new one is
there, never a part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import bson
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.bson import array_documents, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role, Type
from docstore.commands.map_reduce import PARAMETERS, Mode, Output, counts_document, job_of, output_of
from docstore.errors import Code, CommandError
from docstore.js.job import Counts, MapReduceResult
from docstore.query.filter import parse_filter
from docstore.sharding.routing import Routing
from docstore.sharding.version import UNSHARDED
from mongos.merge.map_reduce import merge_output
from mongos.router import router_of
from mongos.routing.language import language_of
from mongos.routing.requests import Answer, forwarded, versioned
from mongos.routing.shards import Shard
from mongos.routing.targeting import filter_shards, unsharded_only

BATCH_DOCUMENTS = 1000
BATCH_BYTES = 8 * 1024 * 1024


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    if not context.services.switches.scripting:
        raise CommandError(31264, "this server runs no JavaScript: it was started with --noscripting")
    router = router_of(context)
    output = output_of(args, context.db)
    tree = parse_filter(args["query"], language=language_of(context))
    seconds = None if context.deadline is None else max(context.deadline - router.clock(), 0.001)
    job = job_of(args, seconds)
    began = router.clock()
    body = forwarded(
        context.raw,
        without=("out", "finalize", "writeConcern"),
        add={"out": {"inline": 1}, "shardedFirstPass": True},
    )

    async def attempt(routing: Routing) -> list[Answer]:
        if routing.primary is None:
            raise CommandError(Code.NamespaceNotFound, "ns doesn't exist")
        answers: list[Answer] = await router.ask(context, routing, filter_shards(routing, tree), body)
        return answers

    answers = await router.routed(context, attempt)
    mapped = router.clock()
    result: MapReduceResult = await router.workers.merge_reduce(job, [_run_of(answer) for answer in answers])
    parts = {answer.address: _counts_of(answer) for answer in answers}
    reply: dict[str, Any] = {}
    if output.mode is Mode.INLINE:
        reply["results"] = [RawBSONDocument(document) for document in result.results]
    else:
        if output.mode is Mode.REPLACE:
            await _replace(context, output, result.results)
        else:
            await merge_output(context, output, job, result.results, bypass=args["bypassDocumentValidation"])
        reply["result"] = output.named(context.db)
    ended = router.clock()
    mapping = sum(parts.values(), Counts())
    total = Counts(mapping.input, mapping.emit, mapping.reduce + result.counts.reduce, len(result.results))
    return {
        **reply,
        "shardCounts": {address: counts_document(counts) for address, counts in parts.items()},
        "counts": counts_document(total),
        "timeMillis": round((ended - began) * 1000),
        "timing": {"shards": round((mapped - began) * 1000), "final": round((ended - mapped) * 1000)},
    }


async def _run_of(answer: Answer) -> AsyncIterator[list[bytes]]:
    found = get_field(answer.body, "results")
    assert found is not None, "the internal form answers with results"
    yield array_documents(found[1])


def _counts_of(answer: Answer) -> Counts:
    found = get_field(answer.body, "counts")
    assert found is not None, "the internal form answers with counts"
    return Counts(**{name: int(value) for name, value in bson.decode(found[1]).items()})


async def _replace(context: Context, output: Output, documents: list[bytes]) -> None:
    """Make the output collection hold exactly these documents, at once."""
    router = router_of(context)
    await router.ensure_database(output.namespace)
    routing: Routing = await router.cache.refresh(output.namespace)
    shard: Shard = await router.shards.get(unsharded_only(routing, "the output of mapReduce"))
    concern = {"writeConcern": context.write_concern.document()} if context.explicit_write_concern else {}
    temporary = f"tmp.mr.{output.collection}_{ObjectId()}"
    try:
        await _to(shard, output.database, {"create": temporary})
        for batch in _batches(documents):
            reply = await _to(shard, output.database, {"insert": temporary, **concern}, {"documents": batch})
            if reply.get("writeErrors"):
                raise CommandError(Code.OperationFailed, str(reply["writeErrors"][0]["errmsg"]))
        await _to(
            shard,
            "admin",
            {
                "renameCollection": f"{output.database}.{temporary}",
                "to": output.namespace,
                "dropTarget": True,
                **concern,
            },
        )
    except CommandError:
        await _to(shard, output.database, {"drop": temporary})
        raise


async def _to(
    shard: Shard, db: str, command: dict[str, Any], sequences: dict[str, list[bytes]] | None = None
) -> dict[str, Any]:
    body = versioned(bson.encode(command), UNSHARDED)
    return (await shard.command(db, body, sequences=sequences)).decoded()


def _batches(documents: list[bytes]) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    size = BATCH_BYTES
    for document in documents:
        if size + len(document) > BATCH_BYTES or len(batches[-1]) == BATCH_DOCUMENTS:
            batches.append([])
            size = 0
        batches[-1].append(document)
        size += len(document)
    return batches


COMMAND = Command(
    "mapReduce",
    run,
    aliases=("mapreduce",),
    privilege=Privilege("find", Resource.COLLECTION),
    role=Role.SECONDARY_OK,
    value=Type.COLLECTION,
    write_concern=True,
    parameters=PARAMETERS,
    help="Map and reduce documents with JavaScript functions.",
)
