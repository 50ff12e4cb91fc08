"""A collection whose content is replaced as a whole: written under a temporary name, then renamed over the old one.

The old content stands until the new is complete. What fails on the way removes the temporary collection again.
"""

from __future__ import annotations

from typing import Any

from bson.objectid import ObjectId

from docstore.bson.namespace import split_namespace
from docstore.collection.collection import Collection
from docstore.collection.options import NO_OPTIONS
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.node.inserts import Inserts
from docstore.node.node import DataNode, node_of
from docstore.node.schema import check_database_case, enter_write
from docstore.node.writes import drive, effective_concern, wait_for_write

TEMPORARY_PREFIX = "tmp.mr."


async def replace_collection(context: Context, namespace: str, documents: list[bytes]) -> dict[str, Any] | None:
    """Make `namespace` hold exactly these documents, which have an `_id`; it keeps its options and indexes.

    Gives the writeConcernError, if any. Errors: those of the documents (DuplicateKey against a unique index of the
    target).
    """
    node = node_of(context)
    concern = effective_concern(context, node)
    database, collection_name = split_namespace(namespace)
    temporary = f"{database}.{TEMPORARY_PREFIX}{collection_name}_{ObjectId()}"
    # The version that came with the request is that of what was read.
    context.namespace, context.shard_version = namespace, None
    await enter_write(context)
    _make_like(node, temporary, node.store.collection(namespace))
    try:
        if documents:
            inserts = Inserts(node, temporary, documents, ordered=True)
            driven = drive(context, inserts)
            if driven is not None:
                await driven
            if inserts.outcome.errors:
                raise inserts.outcome.errors[0][1]
        await enter_write(context)
        unit = node.store.unit()
        try:
            node.store.rename_collection(unit, temporary, namespace, drop_target=True)
        except BaseException:
            unit.abort()
            raise
        last = unit.commit()
    except BaseException:
        _discard(node, temporary)
        raise
    return await wait_for_write(context, last, concern)


def _make_like(node: DataNode, namespace: str, model: Collection | None) -> None:
    store = node.store
    check_database_case(store, namespace)
    unit = store.unit()
    try:
        made = store.create_collection(unit, namespace, NO_OPTIONS if model is None else model.options)
        for index in () if model is None else model.indexes.values():
            if not index.is_id:
                store.create_index(unit, made, index.spec)
    except BaseException:
        unit.abort()
        raise
    unit.commit()


def _discard(node: DataNode, namespace: str) -> None:
    """Drop the temporary collection, unless this node may not write any more: then the next primary's copy goes."""
    try:
        node.replication.check_write()
    except CommandError:
        return
    if node.store.collection(namespace) is not None:
        unit = node.store.unit()
        node.store.drop_collection(unit, namespace)
        unit.commit()
