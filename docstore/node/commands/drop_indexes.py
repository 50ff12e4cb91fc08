"""dropIndexes: drop indexes by name, by key pattern, by a list of names, or all except `_id_` by "*"."""

from __future__ import annotations

from typing import Any

from docstore.bson.walk import Value
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import DROP_INDEXES
from docstore.node.ddl.catalog_changes import change, existing
from docstore.node.ddl.index_choice import chosen_indexes, drops_all
from docstore.node.ddl.shard_key_rules import droppable, shard_key_of
from docstore.node.node import node_of
from docstore.node.timeseries.indexes import bucket_choice
from docstore.node.timeseries.series import series_of


async def run(context: Context, arguments: Arguments) -> Result:
    store = node_of(context).store
    choice: Value = arguments["index"]
    reply: dict[str, Any] = {}
    series = series_of(store, context.namespace)
    if series is not None:
        choice = bucket_choice(series, choice)
        context = context.about(series.buckets.ns)
    key = await shard_key_of(node_of(context), context.namespace)

    def act(unit: WriteUnitOfWork) -> None:
        collection = existing(context, context.namespace)
        reply["nIndexesWas"] = len(collection.counted_indexes)
        if drops_all(choice):
            reply["msg"] = "non-_id indexes dropped for collection"
        for index in droppable(key, collection, chosen_indexes(collection, choice), every=drops_all(choice)):
            store.drop_index(unit, collection, index.name)

    return await change(context, reply, act)


COMMAND = DROP_INDEXES.command(run)
