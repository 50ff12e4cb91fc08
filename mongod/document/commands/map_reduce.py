"""mapReduce on one node: the user's functions run in a worker process over a snapshot of what the node owns.

The internal form (`shardedFirstPass`, see `docstore.commands.map_reduce`) leaves out finalize and answers with the
results in the order of their keys. Output that replaces a collection goes to a temporary one, which takes the target's
name in one step when it is complete: the target holds all of the old results or all of the new ones. The target keeps
its indexes. Output that is merged or reduced into a collection is complete before the first of it is written, document
by document as `$merge` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.pipeline import parse_pipeline
from docstore.aggregation.stages.write import Merge
from docstore.bson import get_field
from docstore.bson.namespace import replicates
from docstore.collection.execute import open_find
from docstore.collection.views import check_no_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.map_reduce import PARAMETERS, Mode, Output, counts_document, job_of, output_of
from docstore.errors import Code, CommandError
from docstore.js.job import MapReduceJob
from docstore.node.cursors import SLICE_SECONDS, DocumentSource, ListSource
from docstore.node.node import DataNode, node_of
from docstore.node.pipeline_output import write_results
from docstore.node.reading import view_of
from docstore.node.replacement import replace_collection
from docstore.node.requests import filter_of, language_of, sort_of
from docstore.node.stored_functions import stored_functions
from docstore.query.find import FindQuery

BATCH_DOCUMENTS = 5000
LOOKUPS = 200
MARGIN_SECONDS = 0.02
BATCH_BYTES = 4 * 1024 * 1024
INLINE_BYTES = 16 * 1024 * 1024
FIRST_PASS_BYTES = 46 * 1024 * 1024
"""What still fits one message between shard and router."""


async def run(context: Context, arguments: Arguments) -> Result:
    if not context.services.switches.scripting:
        raise CommandError(31264, "this server runs no JavaScript: it was started with --noscripting")
    node = node_of(context)
    check_no_view(node.store, context.namespace)
    output = output_of(arguments, context.db)
    if output.mode is not Mode.INLINE:
        check_target(node, output)
    first_pass: bool = arguments["shardedFirstPass"]
    # The functions are stopped before the whole operation is, which would be told as another error.
    seconds = None if context.deadline is None else max(context.deadline - node.clock() - MARGIN_SECONDS, 0.001)
    job = job_of(arguments, seconds, stored_functions(node, context.db))
    language = language_of(context, arguments)
    language = replace(language, scripts=None, excluded=language.excluded | {"$where"})
    tree = filter_of(arguments["query"], language)
    query = FindQuery(filter=tree, sort=sort_of(arguments["sort"], language), limit=arguments["limit"] or 0)
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
    results = await _reduced(context, output, job, result.results) if output.mode is Mode.REDUCE else result.results
    reply: dict[str, Any] = await _deliver(context, output, results, arguments)
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


def check_target(node: DataNode, output: Output) -> None:
    """Errors: those of a node that takes no writes, CommandNotSupportedOnView, 17152 for a capped one."""
    if replicates(output.namespace):
        node.replication.check_write()
    check_no_view(node.store, output.namespace)
    target = node.store.collection(output.namespace)
    if output.mode is Mode.REPLACE and target is not None and target.options.capped:
        raise CommandError(17152, f"{output.namespace} is capped and cannot be replaced")


async def _reduced(context: Context, output: Output, job: MapReduceJob, results: list[bytes]) -> list[bytes]:
    """The results, each reduced with the target's document of its key."""
    node = node_of(context)
    assert node.workers is not None, "a process that serves mapReduce has workers"
    old: list[bytes] = []
    again: list[bytes] = []
    rest: list[bytes] = []
    for position, raw in enumerate(results):
        target, identity = node.store.collection(output.namespace), get_field(raw, "_id")
        assert identity is not None, "a result has a key"
        found = None if target is None else target.by_id(node.engine, identity)
        if found is None:
            rest.append(raw)
        else:
            old.append(found[1])
            again.append(raw)
        if position % LOOKUPS == LOOKUPS - 1:
            await node.pause()
            context.operation.check()
    if not old:
        return rest
    both = await node.workers.merge_reduce(job, [_stream(old), _stream(again)])
    return rest + both.results


async def _stream(documents: list[bytes]) -> AsyncIterator[list[bytes]]:
    yield documents


async def _merged(context: Context, output: Output, results: list[bytes], *, bypass: bool) -> dict[str, Any] | None:
    """Put the results into the target, each in the place of its predecessor. Gives the writeConcernError, if any."""
    into = {"into": {"db": output.database, "coll": output.collection}, "on": "_id", "whenMatched": "replace"}
    stage = parse_pipeline([bson.encode({"$merge": into})]).target
    assert isinstance(stage, Merge), "the pipeline is nothing else"
    reply = await write_results(context, stage, ListSource(results), bypass=bypass, shown=output.namespace)
    failed = get_field(reply, "writeConcernError")
    return None if failed is None else bson.decode(failed[1])


async def _deliver(context: Context, output: Output, results: list[bytes], arguments: Arguments) -> dict[str, Any]:
    first_pass: bool = arguments["shardedFirstPass"]
    if output.mode is not Mode.INLINE:
        context.operation.progress = {"msg": "m/r: output", "progress": {"done": 0, "total": len(results)}}
        if output.mode is Mode.REPLACE:
            failed = await replace_collection(context, output.namespace, results)
        else:
            failed = await _merged(context, output, results, bypass=arguments["bypassDocumentValidation"])
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
