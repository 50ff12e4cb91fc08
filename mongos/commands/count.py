"""`count`: the sum of the shards' counts; skip and limit apply to the sum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import document_to_python, get_field
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.view_stages import filter_stages, range_stages
from docstore.commands.specs.reads import COUNT
from docstore.errors import CommandError
from docstore.query.value.values import int_of
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.reading import carried_out
from mongos.relay.relay import FirstStep, routed
from mongos.relay.targets import NamespaceTargets
from mongos.routing.query_context import names_time, query_context_of, statement_time
from mongos.routing.requests import ShardReply, fields_of
from mongos.views import first_document, read_below

_COUNT = bson.encode({"$count": "n"})
_INT32_MAX = 2**31 - 1


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    try:
        return await carried_out(context, args, _prepare, begun)
    except CommandError as error:
        stages = [*filter_stages(args["query"]), *range_stages(args["skip"], abs(args["limit"])), _COUNT]
        counted = first_document(await read_below(context, error, stages))
        context.progress.whole_ok = True
        return {"n": 0} if counted is None else document_to_python(counted)


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> AskedRead:
    collation = args["collation"]
    language = partial(query_context_of, context, None, collation)
    target = targets.of_filter(args["query"] or EMPTY_DOCUMENT, language, plain=collation is None)
    add: dict[str, Any] = statement_time(language(), context.raw) if names_time(context.raw) else {}
    if len(target.shards) == 1:
        return AskedRead(target=target, finish=partial(_finish, 0, 0), add=fields_of(add))
    skip, limit = args["skip"], abs(args["limit"])
    if limit:
        add["limit"] = Int64(skip + limit)
    return AskedRead(
        target=target, merge=partial(_merge, skip, limit), finish=partial(_finish, skip, limit), add=fields_of(add),
        without=_APPLIED_HERE,
    )  # fmt: skip


def _merge(skip: int, limit: int, answers: Sequence[ShardReply]) -> bytes:
    total = max(sum(_counted(answer.body) for answer in answers) - skip, 0)
    count = min(total, limit) if limit else total
    return bson.encode({"n": count if count <= _INT32_MAX else Int64(count)})


async def _finish(skip: int, limit: int, answers: Sequence[ShardReply]) -> bytes:
    return _merge(skip, limit, answers)


_APPLIED_HERE = frozenset((b"skip", b"limit"))


def _counted(reply: bytes) -> int:
    value = get_field(reply, "n")
    assert value is not None, "count answers with a number"
    return int_of(value)


COMMAND = COUNT.command(routed(run, FirstStep(_prepare, b"\x10n\0")))
