"""Changes of the catalog: each in a unit of work of its own, checked and acknowledged as any write is."""

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
    """A new plain collection, as the first insert into it makes it. Errors: InvalidNamespace, DatabaseDifferCase,
    CommandNotSupportedOnView.
    """
    check_no_view(store, namespace)
    check_takes_documents(store, namespace)
    unit = store.unit()
    try:
        made = store.create_collection(unit, namespace)
    except BaseException:
        unit.abort()
        raise
    unit.commit()
    return made


def check_takes_documents(store: Store, namespace: str) -> None:
    """Refuse a database in which no collection of documents can be. Errors: CommandNotSupported where the store's
    mode guards it, DatabaseDifferCase.
    """
    if store.mode is not None:
        store.mode.check_documents(store.catalog, split_namespace(namespace)[0], "to make a collection")
    check_database_case(store, namespace)


def check_database_case(
    store: Store, namespace: str, may_differ: Callable[[str], bool] = lambda _database: False
) -> None:
    """DatabaseDifferCase when there is a database whose name differs in upper and lower case only, unless it is one
    that `may_differ`.
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
    """The collection, or NamespaceNotFound, or CommandNotSupportedOnView."""
    store = node_of(context).store
    found = store.collection(namespace)
    if found is None:
        check_no_view(store, namespace)
        raise CommandError(Code.NamespaceNotFound, f"ns not found {namespace}")
    return found


async def enter_change(context: Context) -> None:
    """Enter as any change of the catalog does; holds until the next await."""
    await finish_steps(context, entry.enter_change(node_of(context), context.namespace, context.shard_version))


async def change(context: Context, reply: dict[str, Any], act: Callable[[WriteUnitOfWork], None]) -> dict[str, Any]:
    """Do `act` in one write unit and wait for the write concern; `reply` with a writeConcernError when it was not met.

    `act` may add to `reply`; what it raises leaves the catalog as it was.
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
            # Another collection than the request's is used by a transaction.
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
    """What a refusal was read from must be as safe as a write would have been."""
    if context.explicit_write_concern:
        failed = await wait_for_write(context, None, concern)
        if failed is not None:
            refusal.extra["writeConcernError"] = failed
