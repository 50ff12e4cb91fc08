"""create: create a collection with its options and its `_id` index, or a view."""

from __future__ import annotations

from typing import Any

from docstore.collection.catalog.options import NO_OPTIONS
from docstore.collection.catalog.views import define_view, is_view
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Result, Type
from docstore.commands.specs.catalog import CREATE
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import change, check_takes_documents
from docstore.node.ddl.create import check_creatable, created_options, created_view
from docstore.node.node import node_of
from docstore.node.remote_outputs import RemoteOutputs
from docstore.node.timeseries.create import created_series
from docstore.node.timeseries.series import create_series, series_of

_DEPRECATED = "The autoIndexId option is deprecated and will be removed in a future release"


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    store = node.store
    check_creatable(context.namespace)
    buckets = created_series(node, arguments, context.namespace, context.services.switches.face)
    options = NO_OPTIONS if buckets is not None else created_options(node, arguments, context.namespace)
    view = None if buckets is not None else created_view(node, arguments, context.namespace)
    if node.transaction is not None:
        _check_in_transaction(node.store, context.namespace, is_view=view is not None or buckets is not None)

    def act(unit: WriteUnitOfWork) -> None:
        _check_free(store, context.namespace)
        check_takes_documents(store, context.namespace)
        if buckets is not None:
            create_series(store, unit, context.namespace, buckets)
        elif view is None:
            collection = store.create_collection(unit, context.namespace, options)
            if arguments["forOutput"]:
                node.parts[RemoteOutputs].add(collection)
        else:
            define_view(store, unit, view)

    reply: dict[str, Any] = {"note": _DEPRECATED} if arguments["autoIndexId"] else {}
    return await change(context, reply, act)


def _check_free(store: Store, namespace: str) -> None:
    """Check that no collection, view or time-series collection has this name. Errors: NamespaceExists."""
    if store.collection(namespace) is not None:
        raise CommandError(Code.NamespaceExists, f"Collection {namespace} already exists.")
    if series_of(store, namespace) is not None:
        raise CommandError(Code.NamespaceExists, f"A timeseries collection already exists. NS: {namespace}")
    if is_view(store, namespace):
        raise CommandError(Code.NamespaceExists, f"A view already exists. NS: {namespace}")


def _check_in_transaction(store: Store, namespace: str, *, is_view: bool) -> None:
    """Check a creation within a transaction.

    Errors: NamespaceExists, OperationNotSupportedInTransaction for a view.
    """
    if store.collection(namespace) is not None:
        raise CommandError(Code.NamespaceExists, f"Collection {namespace} already exists.")
    if is_view:
        raise CommandError(
            Code.OperationNotSupportedInTransaction,
            "Cannot create a view in a multi-document transaction.",
        )


COMMAND = CREATE.command(
    run,
    Exceptional(
        "a router, or a secondary, has results put into a collection of their own",
        Parameter("forOutput", Type.BOOL, default=False, internal=True),
    ),
)
