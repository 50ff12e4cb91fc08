"""`count`: the sum of the shards' counts; skip and limit apply to the sum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import document_to_python, get_field
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.requests.view_stages import filter_stages, range_stages
from docstore.commands.specs.reads import COUNT
from docstore.errors import CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.value.values import int_of
from docstore.sharding.routing import Routing
from mongos.relay.gathered import Gathering
from mongos.relay.relay import Relaying, relayed
from mongos.relay.targets import NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import query_context_of, statement_time
from mongos.routing.requests import forwarded
from mongos.routing.targeting import filter_shards
from mongos.views import first_document, read_below

_COUNT = bson.encode({"$count": "n"})
_INT32_MAX = 2**31 - 1


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    query_context = query_context_of(context, collation=args["collation"])
    tree = parse_filter(args["query"] or EMPTY_DOCUMENT, query_context=query_context)
    skip, limit = args["skip"], abs(args["limit"])
    time = statement_time(query_context, context.raw)

    async def attempt(routing: Routing) -> int:
        if routing.primary is None:
            return 0
        shards = filter_shards(routing, tree)
        if len(shards) == 1:
            answers = await router.ask(context, routing, shards, forwarded(context.raw, add=time))
            return _counted(answers[0].body)
        add = time | ({"limit": Int64(skip + limit)} if limit else {})
        answers = await router.ask(context, routing, shards, forwarded(context.raw, without=("skip", "limit"), add=add))
        return _of_several((_counted(answer.body) for answer in answers), skip, limit)

    try:
        count = await router.routed(context, attempt)
    except CommandError as error:
        stages = [*filter_stages(args["query"]), *range_stages(skip, limit), _COUNT]
        counted = first_document(await read_below(context, error, stages))
        context.progress.whole_ok = True
        return {"n": 0} if counted is None else document_to_python(counted)
    return _reply(count)


def _counted(reply: bytes) -> int:
    value = get_field(reply, "n")
    assert value is not None, "count answers with a number"
    return int_of(value)


def _of_several(counts: Iterable[int], skip: int, limit: int) -> int:
    total = max(sum(counts) - skip, 0)
    return min(total, limit) if limit else total


def _reply(count: int) -> dict[str, Any]:
    return {"n": count if count <= _INT32_MAX else Int64(count)}


def _gather(context: Context, args: Arguments, targets: NamespaceTargets) -> Gathering | None:
    shards = targets.of_several(args["query"] or EMPTY_DOCUMENT, partial(query_context_of, context))
    if not shards:
        return None
    skip, limit = args["skip"], abs(args["limit"])

    def join(replies: Sequence[bytes]) -> bytes:
        return bson.encode(_reply(_of_several(map(_counted, replies), skip, limit)))

    add = bson.encode({"limit": Int64(skip + limit)})[4:-1] if limit else b""
    return Gathering(shards, join, without=frozenset((b"skip", b"limit")), add=add)


RELAYING = Relaying(
    lambda args, targets, language: targets.of_filter(args["query"] or EMPTY_DOCUMENT, language),
    b"\x10n\0",
    aside=frozenset(("collation",)),
    gather=_gather,
)

COMMAND = COUNT.command(relayed(run, RELAYING))
