"""dropIndexes: indexes go by name, by key pattern, by a list of names, or all but `_id_` with "*"."""

from __future__ import annotations

from typing import Any

from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, values
from docstore.collection.collection import Collection, Index
from docstore.collection.index_spec import ID_INDEX_NAME
from docstore.collection.unit import WriteUnit
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.schema import change, existing
from docstore.query.find import parse_hint
from docstore.query.values import display


async def run(context: Context, arguments: Arguments) -> Result:
    store = node_of(context).store
    asked: Value = arguments["index"]
    reply: dict[str, Any] = {}

    def act(unit: WriteUnit) -> None:
        collection = existing(context, context.namespace)
        reply["nIndexesWas"] = len(collection.indexes)
        if asked[0] == STRING and text_of(asked[1]) == "*":
            reply["msg"] = "non-_id indexes dropped for collection"
        for index in _chosen(collection, asked):
            store.drop_index(unit, collection, index.name)

    return await change(context, reply, act)


def _chosen(collection: Collection, asked: Value) -> list[Index]:
    code, data = asked
    if code == STRING:
        name = text_of(data)
        if name == "*":
            return [index for index in collection.indexes.values() if not index.is_id]
        return [_named(collection, name)]
    if code == ARRAY:
        members = values(data)
        if any(kind != STRING for kind, _ in members):
            raise CommandError(Code.TypeMismatch, "dropIndexes takes a list of index names")
        return [_named(collection, text_of(name)) for _, name in members]
    if code != OBJECT:
        raise CommandError(Code.TypeMismatch, "dropIndexes takes a name, a list of names or a key pattern")
    hint = parse_hint(asked)
    found = [index for index in collection.indexes.values() if hint is not None and index.fields == hint.key]
    if not found:
        raise CommandError(Code.IndexNotFound, f"can't find index with key: {display(asked)}")
    return [_droppable(index) for index in found]


def _named(collection: Collection, name: str) -> Index:
    index = collection.indexes.get(name)
    if index is None:
        raise CommandError(Code.IndexNotFound, f"index not found with name [{name}]")
    return _droppable(index)


def _droppable(index: Index) -> Index:
    if index.name == ID_INDEX_NAME:
        raise CommandError(Code.InvalidOptions, "cannot drop _id index")
    return index


COMMAND = Command(
    "dropIndexes", run, aliases=("deleteIndexes", "dropindexes", "deleteindexes"),
    privilege=Privilege("dropIndex", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION, stable=True,
    parameters=(Parameter("index", Type.ANY, required=True),), help="remove indexes",
)  # fmt: skip
