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
from docstore.query.filter.parse import parse_filter
from docstore.query.value.ordering import BINARY
from docstore.sharding.routing import Routing
from mongos.merge.snapshot_reads import at_one_time
from mongos.relay.gathered import Gathering
from mongos.relay.relay import Relaying, relayed
from mongos.relay.targets import NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import query_context_of, statement_time
from mongos.routing.requests import forwarded
from mongos.routing.targeting import filter_shards
from mongos.views import first_document, read_below


async def run(context: Context, args: Arguments) -> Result:
    return await at_one_time(context, partial(_run, args=args))


async def _run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    query_context = query_context_of(context, collation=args["collation"])
    tree = parse_filter(args["query"] or EMPTY_DOCUMENT, query_context=query_context)
    key_of = query_context.ordering.key
    request = forwarded(context.raw, add=statement_time(query_context, context.raw))

    async def attempt(routing: Routing) -> bytes:
        if routing.primary is None:
            return _reply(context, {})
        answers = await router.ask(context, routing, filter_shards(routing, tree), request)
        return _joined(context, [answer.body for answer in answers], key_of)

    try:
        return await router.routed(context, attempt)
    except CommandError as error:
        grouped = first_document(await read_below(context, error, _stages(args)))
        context.progress.whole_ok = True
    array = None if grouped is None else get_field(grouped, "values")
    values_by_key = {} if array is None else {encode_key(value): value for value in values(array[1])}
    return _reply(context, values_by_key)


def _joined(context: Context, replies: Sequence[bytes], key_of: Callable[[Value], bytes]) -> bytes:
    """The reply with the values of all shards, each once."""
    values_by_key: dict[bytes, Value] = {}
    for reply in replies:
        array = get_field(reply, "values")
        assert array is not None, "distinct answers with values"
        for value in values(array[1]):
            values_by_key.setdefault(key_of(value), value)
    return _reply(context, values_by_key)


def _gather(context: Context, args: Arguments, targets: NamespaceTargets) -> Gathering | None:
    shards = targets.of_several(args["query"] or EMPTY_DOCUMENT, partial(query_context_of, context))
    if not shards:
        return None

    def join(replies: Sequence[bytes]) -> bytes:
        return _joined(context, replies, BINARY.key)

    return Gathering(shards, join)


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


RELAYING = Relaying(
    lambda args, targets, language: targets.of_filter(args["query"] or EMPTY_DOCUMENT, language),
    b"\x04values\0",
    aside=frozenset(("collation",)),
    gather=_gather,
)

COMMAND = DISTINCT.command(relayed(run, RELAYING))
