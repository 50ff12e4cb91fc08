"""Column families on shards that are not the primary shard of their keyspace: copies of its definitions.

A shard that holds rows of a column family has its keyspace's mark and its collection, of the same uuid as everywhere.
The primary shard's definitions are the ones that count; the others follow.
"""

from __future__ import annotations

from uuid import UUID

from docstore.bson import elements
from docstore.collection.catalog.modification import modify_options
from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.node import DataNode
from docstore.widecolumn.node.keyspaces import MARK, wide_of


def hold_family(
    node: DataNode, namespace: str, uuid: UUID, options: CollectionOptions, keyspace: CollectionOptions
) -> Collection:
    """Create the keyspace and the column family with these definitions, or alter them.

    Errors: InvalidUUID if another collection of the name is not empty, NamespaceExists if the database holds
    documents, ConfigurationException for comparators that this node does not know.
    """
    database, name = split_namespace(namespace)
    _hold(node, f"{database}.{MARK}", keyspace, None)
    collection = _hold(node, namespace, options, uuid)
    family = wide_of(node).find(database, name)
    assert family is not None, "it has just been made"
    return collection


def _hold(node: DataNode, namespace: str, options: CollectionOptions, uuid: UUID | None) -> Collection:
    store = node.store
    collection = store.collection(namespace)
    if collection is None and uuid is None and store.catalog.in_database(split_namespace(namespace)[0]):
        raise CommandError(Code.NamespaceExists, f"the database of {namespace} holds documents")
    other = collection is not None and uuid is not None and collection.uuid != uuid
    if collection is not None and not other and collection.options.raw == options.raw:
        return collection
    if collection is not None and other and collection.count:
        raise CommandError(Code.InvalidUUID, f"{namespace} is another collection here")
    with store.unit() as unit:
        if collection is not None and not other:
            modify_options(
                store.catalog, unit, collection, {name: (code, data) for name, code, data in elements(options.raw)}
            )
        else:
            if collection is not None:
                store.drop_collection(unit, namespace)
            collection = store.create_collection(unit, namespace, options, uuid=uuid)
        unit.commit()
    return collection
