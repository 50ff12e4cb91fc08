"""renameCollection: rename a collection, within or across databases, optionally replacing another one.

On a shard, the router's assumptions about both names are checked in the step of the rename: a target that has become
sharded meanwhile is not replaced.
"""

from __future__ import annotations

from docstore.collection.catalog.views import is_view
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Result, Type
from docstore.commands.specs.catalog import RENAME_COLLECTION
from docstore.errors import Code, CommandError
from docstore.namespace import check_removable, replicates
from docstore.node.ddl.catalog_changes import change, check_takes_documents
from docstore.node.node import node_of
from docstore.node.remote_outputs import RemoteOutputs
from docstore.node.shard_filter import MustWait
from docstore.node.write.driver import check_writable


async def run(context: Context, arguments: Arguments) -> Result:
    source, target = arguments.value, arguments["to"]
    if source == target:
        raise CommandError(Code.IllegalOperation, "Can't rename a collection to itself")
    if replicates(source) != replicates(target):
        raise CommandError(Code.IllegalOperation, "cannot rename between the local and another database")
    for which, namespace in (("source", source), ("target", target)):
        check_removable(namespace)
        _check_writable(which, namespace)
    store, shard_filter = node_of(context).store, node_of(context).shard_filter
    remote_outputs = node_of(context).parts[RemoteOutputs]

    def act(unit: WriteUnitOfWork) -> None:
        if shard_filter is not None:
            shard_filter.check_version(target, arguments["toShardVersion"], write=True)
        if is_view(store, source):
            raise CommandError(Code.CommandNotSupportedOnView, f"cannot rename view: {source}")
        if is_view(store, target):
            raise CommandError(Code.NamespaceExists, f"a view already exists with that name: {target}")
        if store.collection(source) is None:
            raise CommandError(Code.NamespaceNotFound, f"Source collection {source} does not exist")
        if store.collection(target) is not None and not arguments["dropTarget"]:
            raise CommandError(Code.NamespaceExists, "target namespace exists")
        for namespace in (source, target):
            check_takes_documents(store, namespace)
        if arguments["fromOutput"]:
            remote_outputs.complete(source)
        store.rename_collection(unit, source, target, drop_target=arguments["dropTarget"])

    about = context.about(source)
    while True:
        try:
            return await change(about, {}, act)
        except MustWait as wait:
            await wait.wait()


def _check_writable(which: str, namespace: str) -> None:
    try:
        check_writable(namespace)
    except CommandError as error:
        raise CommandError(Code.IllegalOperation, f"error with {which} namespace: {error.message}") from None


COMMAND = RENAME_COLLECTION.command(
    run,
    Exceptional(
        "a router says by which routing it takes the target for one that is not sharded, and that results are complete",
        Parameter("toShardVersion", Type.OBJECT, internal=True),
        Parameter("fromOutput", Type.BOOL, default=False, internal=True),
    ),
)
