"""drop: drop a collection with its indexes, or a view; `system.views` stands for all views of a database.

Open cursors on the collection continue to their end.
"""

from __future__ import annotations

from typing import Any

from docstore.collection.catalog.views import SYSTEM_VIEWS, is_view, remove_view
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import DROP
from docstore.errors import Code, CommandError
from docstore.namespace import check_removable, split_namespace
from docstore.node.ddl.catalog_changes import change
from docstore.node.node import node_of
from docstore.node.timeseries.series import check_no_series_in, drop_series, series_of
from docstore.node.upkeep.profiler import SYSTEM_PROFILE
from docstore.node.write.driver import check_writable


async def run(context: Context, _arguments: Arguments) -> Result:
    name = split_namespace(context.namespace)[1]
    if name == SYSTEM_PROFILE and node_of(context).profiler.of(context.db).level:
        raise CommandError(Code.IllegalOperation, "turn off profiling before dropping system.profile collection")
    check_removable(context.namespace)
    if name not in (SYSTEM_VIEWS, SYSTEM_PROFILE):
        check_writable(context.namespace)
    store = node_of(context).store
    reply: dict[str, Any] = {}

    def act(unit: WriteUnitOfWork) -> None:
        collection = store.collection(context.namespace)
        series = series_of(store, context.namespace)
        if series is not None:
            reply["nIndexesWas"] = len(series.buckets.counted_indexes)
            reply["ns"] = context.namespace
            drop_series(store, unit, series)
            return
        if collection is None and is_view(store, context.namespace):
            remove_view(store, unit, context.namespace)
            reply["ns"] = context.namespace
            return
        if collection is None:
            raise CommandError(Code.NamespaceNotFound, "ns not found")
        if name == SYSTEM_VIEWS:
            check_no_series_in(store, context.db)
        reply["nIndexesWas"] = len(collection.counted_indexes)
        reply["ns"] = context.namespace
        store.drop_collection(unit, context.namespace)

    return await change(context, reply, act)


COMMAND = DROP.command(run)
