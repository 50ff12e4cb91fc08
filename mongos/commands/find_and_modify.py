"""`findAndModify`: change one document and give it back; the query must hold the shard key."""

from __future__ import annotations

from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import FIND_AND_MODIFY
from docstore.query.filter.parse import parse_filter
from docstore.sharding.routing import Routing
from mongos.relay.relay import Relaying, relayed
from mongos.router import router_of
from mongos.routing.query_context import query_context_of, statement_time
from mongos.routing.requests import forwarded, whole_request
from mongos.routing.targeting import documents_only, exact_shard


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    await router.ensure_database(context.namespace)
    query_context = query_context_of(context, args["let"], args["collation"])
    body = forwarded(whole_request(context), add=statement_time(query_context, context.raw))
    retryable = context.session is not None and context.session.txn_number is not None

    async def attempt(routing: Routing) -> bytes:
        documents_only(context, routing)
        # An unsharded collection is on one shard, which reports errors in the query.
        query = EMPTY_DOCUMENT if routing.collection is None else args["query"] or EMPTY_DOCUMENT
        shard = exact_shard(routing, parse_filter(query, query_context=query_context), "findAndModify")
        (answer,) = await router.ask(context, routing, [shard], body, repeatable=retryable)
        return answer.relayed()

    return await router.routed(context, attempt)


RELAYING = Relaying(
    lambda args, targets, language: targets.of_one(args["query"] or EMPTY_DOCUMENT, language),
    b"\x03lastErrorObject\0",
    aside=frozenset(("let", "collation")),
)

COMMAND = FIND_AND_MODIFY.command(relayed(run, RELAYING))
