"""reIndex: rebuild the indexes of a standalone's collection beside the old ones, then replace these.

The `_id` index stays: it maps `_id`s to record ids, and a rebuild would not improve it.
"""

from __future__ import annotations

from bson.raw_bson import RawBSONDocument

from docstore.collection.catalog.views import check_no_view
from docstore.collection.index.build import IndexBuild
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import change
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.node import node_of
from docstore.node.slices import finish_apart


async def run(context: Context, arguments: Arguments) -> Result:
    del arguments
    node = node_of(context)
    if node.replication.set_name is not None:
        raise CommandError(Code.IllegalOperation, "reIndex is only allowed on a standalone mongod instance")
    collection = node.store.collection(context.namespace)
    if collection is None:
        check_no_view(node.store, context.namespace)
        raise CommandError(Code.NamespaceNotFound, "collection does not exist")
    counted = [index.spec for index in collection.counted_indexes]
    reply = {
        "nIndexesWas": len(counted),
        "nIndexes": len(counted),
        "indexes": [RawBSONDocument(spec.raw) for spec in counted],
    }
    old = [index for index in collection.indexes.values() if not index.is_id]
    if not old:
        return reply
    specs = [index.spec for index in old]
    build = IndexBuild(node.store.engine, node.store.catalog, collection, specs, tolerant=False, replacing=True)

    def act(unit: WriteUnitOfWork) -> None:
        build.finish(unit)
        for index in old:
            node.store.catalog.discard(unit, collection, index.ident)

    try:
        building = Repeated(lambda _owned, until: build.step(until))
        await finish_apart(context, write_in_slices(node, context.namespace, building))
        return await change(context, reply, act)
    except BaseException:
        build.abort()
        raise


COMMAND = Command(
    "reIndex", run, aliases=("reindex",), privilege=Privilege("reIndex", Resource.COLLECTION), role=Role.PRIMARY,
    user_first=True, pausable=True,
    value=Type.COLLECTION, wrong_name=Code.InvalidNamespace, tolerant=True,
    help="build the indexes of a collection anew",
)  # fmt: skip
