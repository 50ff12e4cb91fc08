"""drop: a collection and its indexes go; cursors that are open on it read on to their end."""

from __future__ import annotations

from typing import Any

from docstore.collection.unit import WriteUnit
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.schema import change
from docstore.node.writes import check_writable


async def run(context: Context, _arguments: Arguments) -> Result:
    check_writable(context.namespace)
    store = node_of(context).store
    reply: dict[str, Any] = {}

    def act(unit: WriteUnit) -> None:
        collection = store.collection(context.namespace)
        if collection is None:
            raise CommandError(Code.NamespaceNotFound, "ns not found")
        reply["nIndexesWas"] = len(collection.indexes)
        reply["ns"] = context.namespace
        store.drop_collection(unit, context.namespace)

    return await change(context, reply, act)


COMMAND = Command(
    "drop", run, privilege=Privilege("dropCollection", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    stable=True, help="remove a collection",
)  # fmt: skip
