"""cloneCollectionAsCapped: create a capped collection with the newest documents of another one that fit."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import CLONE_COLLECTION_AS_CAPPED
from docstore.errors import Code, CommandError
from docstore.namespace import check_collection_name
from docstore.node.ddl.capped import clone
from docstore.node.ddl.catalog_changes import existing
from docstore.node.ddl.create import check_creatable
from docstore.node.node import node_of
from docstore.node.read.requests import capped_size_of
from docstore.node.write.driver import check_writable


async def run(context: Context, arguments: Arguments) -> Result:
    name = arguments["toCollection"]
    if name is None:
        raise CommandError(Code.TypeMismatch, "'toCollection' must be of type String")
    target = check_collection_name(context.db, name)
    check_creatable(target)
    check_writable(target)
    size = capped_size_of(arguments["size"])
    source = existing(context, context.namespace)
    if node_of(context).store.collection(target) is not None:
        raise CommandError(
            Code.NamespaceExists, f"cloneCollectionAsCapped failed - destination collection {target} already exists"
        )
    return await clone(context.about(target), source, target, size)


COMMAND = CLONE_COLLECTION_AS_CAPPED.command(run)
