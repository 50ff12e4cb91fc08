"""Catalog changes, each in its own unit of work, checked and acknowledged like any write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstore.collection.catalog.views import check_no_view
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node import entry
from docstore.node.node import node_of
from docstore.node.slices import finish_steps
from docstore.node.write.driver import effective_concern, wait_for_write


def make_collection(store: Store, namespace: str) -> Collection:
    """Create a plain collection, as its first insert does.

    Errors: InvalidNamespace, DatabaseDifferCase, CommandNotSupportedOnView.
    """
    check_no_view(store, namespace)
    check_takes_documents(store, namespace)
    unit = store.unit()
    try:
        collection = store.create_collection(unit, namespace)
    except BaseException:
        unit.abort()
        raise
    unit.commit()
    return collection


def check_takes_documents(store: Store, namespace: str) -> None:
    """Reject a database that cannot have document collections.

    Errors: CommandNotSupported by the store's mode, DatabaseDifferCase.
    """
    if store.mode is not None:
        store.mode.check_documents(store.catalog, split_namespace(namespace)[0], "to make a collection")
    check_database_case(store, namespace)


def check_database_case(
    store: Store, namespace: str, may_differ: Callable[[str], bool] = lambda _database: False
) -> None:
    """Reject a database whose name differs from an existing one only in case, unless `may_differ` accepts that one.

    Errors: DatabaseDifferCase.
    """
    database = split_namespace(namespace)[0]
    folded = database.lower()
    for other in store.databases():
        if other.lower() == folded and other != database and not may_differ(other):
            raise CommandError(
                Code.DatabaseDifferCase,
                f"db already exists with different case already have: [{other}] trying to create [{database}]",
            )


def existing(context: Context, namespace: str) -> Collection:
    """Return the collection. Errors: NamespaceNotFound, CommandNotSupportedOnView."""
    store = node_of(context).store
    collection = store.collection(namespace)
    if collection is None:
        check_no_view(store, namespace)
        raise CommandError(Code.NamespaceNotFound, f"ns not found {namespace}")
    return collection


async def enter_change(context: Context) -> None:
    """Wait until the catalog may be changed; this holds until the next await."""
    await finish_steps(context, entry.enter_change(node_of(context), context.namespace, context.shard_version))


async def change(context: Context, reply: dict[str, Any], act: Callable[[WriteUnitOfWork], None]) -> dict[str, Any]:
    """Run `act` in one write unit and wait for the write concern.

    Return `reply`, with a writeConcernError if it failed. `act` may add to `reply`; its errors leave the catalog
    unchanged.
    """
    node = node_of(context)
    concern = effective_concern(context, node)
    while True:
        await enter_change(context)
        unit = node.store.unit()
        try:
            act(unit)
            break
        except WriteConflict as conflict:
            unit.abort()
            if conflict.over is None:
                raise
            # A transaction uses a collection other than the request's.
            await conflict.over()
        except CommandError as refusal:
            unit.abort()
            await _with_concern(context, refusal, concern)
            raise
        except BaseException:
            unit.abort()
            raise
    last = unit.commit()
    failed = await wait_for_write(context, last, concern)
    if failed is not None:
        reply["writeConcernError"] = failed
    return reply


async def _with_concern(context: Context, refusal: CommandError, concern: WriteConcern) -> None:
    """Wait for an explicit write concern before a refusal is reported.

    The state that the refusal was read from must be as safe as a write.
    """
    if context.explicit_write_concern:
        failed = await wait_for_write(context, None, concern)
        if failed is not None:
            refusal.extra["writeConcernError"] = failed
