"""`findAndModify`: change one document and give it back; the query must hold the shard key."""

from __future__ import annotations

import bson

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.query.filter.parse import parse_filter
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.query_context import query_context_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import documents_only, exact_shard, is_replacement, refuse_key_change

_NOTHING = bson.encode({})


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    await router.ensure_database(context.namespace)
    tree = parse_filter(args["query"], query_context=query_context_of(context, args["let"], args["collation"]))
    update = args["update"]
    body = forwarded(context.raw)
    retryable = context.session is not None and context.session.txn_number is not None

    async def attempt(routing: Routing) -> bytes:
        documents_only(context, routing)
        shard = exact_shard(routing, tree, "findAndModify")
        if routing.collection is not None and update is not None and not is_replacement(*update):
            refuse_key_change(routing.collection.key, tree, update[1])
        (answer,) = await router.ask(context, routing, [shard], body, repeatable=retryable)
        return answer.relayed()

    return await router.routed(context, attempt)


COMMAND = Command(
    "findAndModify",
    run,
    aliases=("findandmodify",),
    privilege=Privilege("update", Resource.COLLECTION),
    role=Role.PRIMARY,
    value=Type.COLLECTION,
    retryable=True,
    stable=True,
    parameters=(
        Parameter("query", Type.OBJECT, default=_NOTHING),
        Parameter("sort", Type.OBJECT),
        Parameter("remove", Type.SAFE_BOOL, default=False),
        Parameter("update", Type.ANY),
        Parameter("new", Type.SAFE_BOOL, default=False),
        Parameter("fields", Type.OBJECT),
        Parameter("upsert", Type.SAFE_BOOL, default=False),
        Parameter("hint", (Type.STRING, Type.OBJECT)),
        Parameter("arrayFilters", Type.DOCUMENTS),
        Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False),
        Parameter("collation", Type.OBJECT),
        Parameter("let", Type.OBJECT),
    ),
    help="Change or remove one document and return it.",
)
