"""mapReduce on one node: the user's functions run in a worker process over a snapshot of what the node owns.

The internal form (`shardedFirstPass`, see `docstore.commands.map_reduce`) leaves out finalize and answers with the
results in the order of their keys. Output into a collection goes to a temporary one, which takes the target's name in
one step when it is complete: the target holds all of the old results or all of the new ones. The target keeps its
indexes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from inspect import isawaitable
from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.bson.namespace import replicates
from docstore.collection.execute import open_find
from docstore.collection.views import check_no_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.map_reduce import PARAMETERS, Mode, Output, counts_document, job_of, output_of
from docstore.errors import Code, CommandError
from docstore.node.cursors import SLICE_SECONDS, DocumentSource
from docstore.node.node import DataNode, node_of
from docstore.node.reading import view_of
from docstore.node.replacement import replace_collection
from docstore.node.requests import filter_of, language_of, sort_of
from docstore.query.find import FindQuery

BATCH_DOCUMENTS = 5000
BATCH_BYTES = 4 * 1024 * 1024
INLINE_BYTES = 16 * 1024 * 1024
FIRST_PASS_BYTES = 46 * 1024 * 1024
"""What still fits one message between shard and router."""


async def run(context: Context, arguments: Arguments) -> Result:
    if not context.services.switches.scripting:
        raise CommandError(16149, "this server runs no JavaScript: it was started with --noscripting")
    node = node_of(context)
    check_no_view(node.store, context.namespace)
    output = output_of(arguments, context.db)
    if output.mode is Mode.REPLACE and replicates(output.namespace):
        node.replication.check_write()
    first_pass: bool = arguments["shardedFirstPass"]
    seconds = None if context.deadline is None else max(context.deadline - node.clock(), 0.001)
    job = job_of(arguments, seconds)
    language = language_of(context, arguments)
    tree = filter_of(arguments["query"], language)
    query = FindQuery(filter=tree, sort=sort_of(arguments["sort"], language), limit=arguments["limit"])
    assert node.workers is not None, "a process that serves mapReduce has workers"
    viewing = view_of(context)
    view = await viewing if isawaitable(viewing) else viewing
    began = node.clock()
    try:
        source = open_find(
            node.store.collection(context.namespace), query, view.reader, owned=view.owned, clock=node.clock
        )
        try:
            result = await node.workers.map_reduce(job, _batches(context, node, source), partial=first_pass)
        finally:
            source.close()
    finally:
        view.release()
    mapped = node.clock()
    reply: dict[str, Any] = await _deliver(context, output, result.results, first_pass)
    ended = node.clock()
    reply["timeMillis"] = round((ended - began) * 1000)
    reply["counts"] = counts_document(result.counts)
    if arguments["verbose"]:
        reply["timing"] = {"emitLoop": round((mapped - began) * 1000), "total": round((ended - began) * 1000)}
    return reply


async def _batches(context: Context, node: DataNode, source: DocumentSource) -> AsyncIterator[list[bytes]]:
    done = 0
    while True:
        batch = source.next_batch(BATCH_DOCUMENTS, BATCH_BYTES, node.clock() + SLICE_SECONDS)
        done += len(batch.documents)
        context.operation.progress = {"msg": "m/r: map", "progress": {"done": done}}
        if batch.documents:
            yield batch.documents
        if batch.exhausted:
            return
        await node.pause()


async def _deliver(context: Context, output: Output, results: list[bytes], first_pass: bool) -> dict[str, Any]:
    if output.mode is Mode.REPLACE:
        context.operation.progress = {"msg": "m/r: output", "progress": {"done": 0, "total": len(results)}}
        failed = await replace_collection(context, output.namespace, results)
        reply = {"result": output.named(context.db)}
        return reply if failed is None else {**reply, "writeConcernError": failed}
    if sum(map(len, results)) > (FIRST_PASS_BYTES if first_pass else INLINE_BYTES):
        raise CommandError(Code.BSONObjectTooLarge, "the results are too large to be returned inline")
    return {"results": [RawBSONDocument(raw) for raw in results]}


COMMAND = Command(
    "mapReduce", run, aliases=("mapreduce",), privilege=Privilege("find", Resource.COLLECTION),
    role=Role.SECONDARY_OK, value=Type.COLLECTION, parameters=PARAMETERS, write_concern=True, read_concern=True,
    help="map and reduce the documents of a collection with JavaScript functions",
)  # fmt: skip
