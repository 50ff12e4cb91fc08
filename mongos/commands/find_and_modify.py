"""`findAndModify`: change one document and give it back; the query must hold the shard key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.writes import FIND_AND_MODIFY
from mongos.relay.asked import AskedRead, Begun
from mongos.relay.reading import carried_out
from mongos.relay.relay import FirstStep, routed
from mongos.relay.targets import NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import names_time, query_context_of, statement_time
from mongos.routing.requests import ShardReply, fields_of, whole_request
from mongos.routing.targeting import documents_only


async def run(context: Context, args: Arguments, begun: Begun | None) -> Result:
    if begun is None:
        await router_of(context).ensure_database(context.namespace)
    whole = context.derived(raw=whole_request(context)) if context.sequences else context
    retryable = context.session is not None and context.session.txn_number is not None
    return await carried_out(whole, args, _prepare, begun, repeatable=retryable)


def _prepare(context: Context, args: Arguments, targets: NamespaceTargets) -> AskedRead:
    documents_only(context, targets.routing)
    language = partial(query_context_of, context, args["let"], args["collation"])
    plain = args["let"] is None and args["collation"] is None
    target = targets.of_one(args["query"] or EMPTY_DOCUMENT, language, plain=plain)
    time = statement_time(language(), context.raw) if names_time(context.raw) else {}
    return AskedRead(target=target, finish=_passed_on, add=fields_of(time))


async def _passed_on(answers: Sequence[ShardReply]) -> bytes:
    return answers[0].relayed()


COMMAND = FIND_AND_MODIFY.command(routed(run, FirstStep(_prepare, b"\x03lastErrorObject\0")))
