"""listCollections: the collections and views of a database, as a cursor. A filter sees what is shown."""

from __future__ import annotations

from collections.abc import Awaitable
from operator import itemgetter
from typing import Any

from bson.binary import Binary, UuidRepresentation
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python, from_python
from docstore.bson.namespace import split_namespace
from docstore.collection.collection import Collection
from docstore.collection.oplog import OPLOG_NS, Oplog
from docstore.collection.views import ViewDefinition, views_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.node.cursors import ListSource, first_batch
from docstore.node.node import node_of
from docstore.node.requests import CURSOR, batch_size_of
from docstore.query.compile import compile_filter
from docstore.query.filter import parse_filter


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    store = node_of(context).store
    batch_size = batch_size_of(arguments)
    wanted = compile_filter(parse_filter(arguments["filter"])) if arguments["filter"] is not None else None
    collections = [store.collection(name) for name in store.namespaces(context.db)]
    entries = [describe(collection) for collection in collections if collection is not None]
    entries += [describe_view(view) for view in views_of(store, context.db)]
    if context.db == "local" and store.oplog is not None:
        entries.append(describe_oplog(store.oplog))
    found: list[bytes] = []
    for entry in sorted(entries, key=itemgetter("name")):
        shown = {"name": entry["name"], "type": entry["type"]} if arguments["nameOnly"] else entry
        raw = from_python(shown)[1]
        if wanted is None or wanted.matches(raw):
            found.append(raw)
    return first_batch(
        context, ListSource(found), batch_size=batch_size, catalog=True, namespace=f"{context.db}.$cmd.listCollections"
    )


def describe(collection: Collection) -> dict[str, Any]:
    """One entry of the list."""
    return {
        "name": collection.name,
        "type": "collection",
        "options": RawBSONDocument(collection.options.raw),
        "info": {
            "readOnly": False,
            "uuid": Binary.from_uuid(collection.uuid, UuidRepresentation.STANDARD),
        },
        "idIndex": document_to_python(collection.id_index.spec.raw),
    }


def describe_view(view: ViewDefinition) -> dict[str, Any]:
    """A view's entry."""
    options = RawBSONDocument(view.options())
    return {"name": view.name, "type": "view", "options": options, "info": {"readOnly": True}}


def describe_oplog(oplog: Oplog) -> dict[str, Any]:
    """The oplog's entry: it has no `_id` index, and is cut at its size."""
    return {
        "name": split_namespace(OPLOG_NS)[1],
        "type": "collection",
        "options": {"capped": True, "size": Int64(oplog.max_bytes), "autoIndexId": False},
        "info": {"readOnly": False},
    }


COMMAND = Command(
    "listCollections", run, aliases=("listcollections",), privilege=Privilege("listCollections", Resource.DATABASE),
    role=Role.SECONDARY_OK, stable=True,
    parameters=(
        CURSOR,
        Parameter("nameOnly", Type.SAFE_BOOL, default=False),
        Parameter("filter", Type.OBJECT),
        Parameter("authorizedCollections", Type.SAFE_BOOL, default=False),
    ),
    help="the collections of a database",
)  # fmt: skip
