"""Results of a map-reduce that go into a collection of one shard, beside what is there.

Each result takes the place of the document with its key; with `reduce` it is first reduced with that document. The
results are complete before the first of them is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import bson

from docstore.bson import array_documents, array_from, document_from, encode_key, get_field
from docstore.bson.walk import ARRAY, BOOL, INT32, OBJECT, Value
from docstore.commands.context import Context
from docstore.commands.map_reduce import Mode, Output
from docstore.errors import Code, CommandError
from docstore.js.job import MapReduceJob
from docstore.query.values import string_value
from docstore.sharding.routing import Routing
from docstore.sharding.version import UNSHARDED
from mongos.router import router_of
from mongos.routing.requests import versioned
from mongos.routing.shards import Shard
from mongos.routing.targeting import unsharded_only

BATCH_DOCUMENTS = 500


async def merge_output(
    context: Context, output: Output, job: MapReduceJob, results: list[bytes], *, bypass: bool
) -> None:
    """Errors: those of the writes, NotImplemented for a target that is sharded."""
    router = router_of(context)
    await router.ensure_database(output.namespace)
    routing: Routing = await router.cache.refresh(output.namespace)
    shard: Shard = await router.shards.get(unsharded_only(routing, "the output of mapReduce"))
    if output.mode is Mode.REDUCE:
        results = await _reduced(context, shard, output, job, results)
    concern = {"writeConcern": context.write_concern.document()} if context.explicit_write_concern else {}
    command: dict[str, Any] = {"update": output.collection, "bypassDocumentValidation": bypass, **concern}
    remaining = iter(results)
    while batch := list(islice(remaining, BATCH_DOCUMENTS)):
        body = versioned(bson.encode(command), UNSHARDED)
        answer = await shard.command(output.database, body, sequences={"updates": list(map(_statement, batch))})
        errors = answer.decoded().get("writeErrors")
        if errors:
            raise CommandError(errors[0]["code"], errors[0]["errmsg"])


async def _reduced(
    context: Context, shard: Shard, output: Output, job: MapReduceJob, results: list[bytes]
) -> list[bytes]:
    old: list[bytes] = []
    again: list[bytes] = []
    rest: list[bytes] = []
    remaining = iter(results)
    while batch := list(islice(remaining, BATCH_DOCUMENTS)):
        found = await _existing(shard, output, list(map(_key, batch)))
        old += found
        keys = {encode_key(_key(raw)) for raw in found}
        for raw in batch:
            (again if encode_key(_key(raw)) in keys else rest).append(raw)
    if not old:
        return rest
    both = await router_of(context).workers.merge_reduce(job, [_stream(old), _stream(again)])
    return rest + both.results


async def _existing(shard: Shard, output: Output, keys: list[Value]) -> list[bytes]:
    """The target's documents with these keys, in the order of keys."""
    condition = document_from([("_id", OBJECT, document_from([("$in", ARRAY, array_from(keys))]))])
    order = document_from([("_id", INT32, b"\1\0\0\0")])
    command = document_from(
        [("find", *string_value(output.collection)), ("filter", OBJECT, condition), ("sort", OBJECT, order)]
    )
    found: list[bytes] = []
    field = "firstBatch"
    while True:
        answer = await shard.command(output.database, versioned(command, UNSHARDED))
        cursor = get_field(answer.body, "cursor")
        assert cursor is not None, "a find answers with a cursor"
        batch, identity = get_field(cursor[1], field), get_field(cursor[1], "id")
        assert batch is not None, "a cursor has a batch"
        assert identity is not None, "a cursor has an id"
        found += array_documents(batch[1])
        if not any(identity[1]):
            return found
        field = "nextBatch"
        command = document_from([("getMore", *identity), ("collection", *string_value(output.collection))])


def _key(raw: bytes) -> Value:
    key = get_field(raw, "_id")
    if key is None:
        raise CommandError(Code.NoSuchKey, "a result without a key")
    return key


def _statement(raw: bytes) -> bytes:
    condition = document_from([("_id", OBJECT, document_from([("$eq", *_key(raw))]))])
    return document_from([("q", OBJECT, condition), ("u", OBJECT, raw), ("upsert", BOOL, b"\1")])


async def _stream(documents: list[bytes]) -> AsyncIterator[list[bytes]]:
    yield documents
