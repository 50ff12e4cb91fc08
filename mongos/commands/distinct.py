"""`distinct`: the values that any shard has at a path, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import bson

from docstore.bson import array_from, document_from, get_field
from docstore.bson.walk import EMPTY_DOCUMENT, TIMESTAMP, Value, values
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.view_stages import filter_stages
from docstore.commands.specs.reads import DISTINCT
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.value.ordering import BINARY
from mongos.merge.snapshot_reads import at_one_time
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.reading import carried_out
from mongos.relay.relay import FirstStep, routed
from mongos.relay.targets import NamespaceTargets
from mongos.routing.query_context import names_time, query_context_of, statement_time
from mongos.routing.requests import ShardReply, fields_of
from mongos.views import first_document, read_below


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    return await at_one_time(context, partial(_run, args=args, begun=begun))


async def _run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    try:
        return await carried_out(context, args, _prepare, begun)
    except CommandError as error:
        grouped = first_document(await read_below(context, error, _stages(args)))
        context.progress.whole_ok = True
    array = None if grouped is None else get_field(grouped, "values")
    values_by_key = {} if array is None else {encode_key(value): value for value in values(array[1])}
    return _reply(context, values_by_key)


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> AskedRead:
    language = partial(query_context_of, context, None, args["collation"])
    target = targets.of_filter(args["query"] or EMPTY_DOCUMENT, language, plain=args["collation"] is None)
    key_of = BINARY.key if args["collation"] is None else language().ordering.key
    add = statement_time(language(), context.raw) if names_time(context.raw) else {}

    def merge(answers: Sequence[ShardReply]) -> bytes:
        return _joined(context, answers, key_of)

    async def finish(answers: Sequence[ShardReply]) -> bytes:
        return merge(answers)

    return AskedRead(
        target=target, merge=merge, finish=finish,
        add=fields_of(add),
    )  # fmt: skip


def _joined(context: Context, answers: Sequence[ShardReply], key_of: Callable[[Value], bytes]) -> bytes:
    """The reply with the values of all shards, each once."""
    values_by_key: dict[bytes, Value] = {}
    for answer in answers:
        array = get_field(answer.body, "values")
        assert array is not None, "distinct answers with values"
        for value in values(array[1]):
            values_by_key.setdefault(key_of(value), value)
    return _reply(context, values_by_key)


def _reply(context: Context, found: Mapping[bytes, Value]) -> bytes:
    """`found`: the values by their keys."""
    fields = [("values", 0x04, array_from(found[key] for key in sorted(found)))]
    at = context.at_cluster_time
    if at is not None:
        fields.append(("atClusterTime", TIMESTAMP, at.to_bytes(8, "little")))
    return document_from(fields)


def _stages(args: Arguments) -> list[bytes]:
    """The different values at a path as stages: arrays on the way count by their elements."""
    parts = args["key"].split(".")
    stages = filter_stages(args["query"])
    for length in range(1, len(parts) + 1):
        path = "$" + ".".join(parts[:length])
        stages.append(bson.encode({"$unwind": {"path": path, "preserveNullAndEmptyArrays": True}}))
    stages.append(bson.encode({"$group": {"_id": None, "values": {"$addToSet": f"${args['key']}"}}}))
    return stages


COMMAND = DISTINCT.command(routed(run, FirstStep(_prepare, b"\x04values\0")))
