"""create: a collection with its options and nothing in it but its `_id` index."""

from __future__ import annotations

from typing import Any

from docstore.collection.unit import WriteUnit
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.creation import PARAMETERS, created_options
from docstore.node.node import node_of
from docstore.node.requests import COLLATION
from docstore.node.schema import change, check_database_case
from docstore.node.writes import check_writable

_DEPRECATED = "The autoIndexId option is deprecated and will be removed in a future release"


async def run(context: Context, arguments: Arguments) -> Result:
    check_writable(context.namespace)
    options = created_options(node_of(context), arguments, context.namespace)
    store = node_of(context).store

    def act(unit: WriteUnit) -> None:
        if store.collection(context.namespace) is not None:
            raise CommandError(Code.NamespaceExists, f"Collection {context.namespace} already exists.")
        check_database_case(store, context.namespace)
        store.create_collection(unit, context.namespace, options)

    reply: dict[str, Any] = {"note": _DEPRECATED} if arguments["autoIndexId"] else {}
    return await change(context, reply, act)


COMMAND = Command(
    "create", run, privilege=Privilege("createCollection", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.COLLECTION, stable=True, help="make a collection", parameters=(*PARAMETERS, COLLATION),
)  # fmt: skip
