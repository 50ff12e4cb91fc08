"""dropDatabase: drop every collection of the database."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import DROP_DATABASE
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import change, enter_change
from docstore.node.node import node_of

_AT_ONCE = 64
_KEPT = frozenset(("admin", "config", "local"))


async def run(context: Context, arguments: Arguments) -> Result:
    if arguments.value is None or to_python(arguments.value) != 1:
        raise CommandError(5255100, "dropDatabase takes the value 1")
    if context.db in _KEPT:
        raise CommandError(Code.IllegalOperation, f"Dropping the '{context.db}' database is prohibited.")
    store = node_of(context).store
    count = len(store.namespaces(context.db))
    while len(namespaces := store.namespaces(context.db)) > _AT_ONCE:
        # The acknowledged unit drops the rest and records that it was the database.
        await enter_change(context)
        with store.unit() as unit:
            for namespace in namespaces[:_AT_ONCE]:
                if store.collection(namespace) is not None:
                    store.drop_collection(unit, namespace)
            unit.commit()
        await node_of(context).pause()
        context.operation.check()

    def drop(unit: WriteUnitOfWork) -> None:
        if store.namespaces(context.db):
            store.drop_database(unit, context.db)

    reply: dict[str, Any] = await change(context, {}, drop)
    failed = reply.get("writeConcernError")
    if failed is not None and count:
        # The collections are dropped, but the reference would not have continued to the database itself.
        raise CommandError(
            failed["code"],
            f"dropDatabase {context.db} failed waiting for {count} collection drop(s): {failed['errmsg']}",
            extra=reply,
        )
    return reply


COMMAND = DROP_DATABASE.command(run)
