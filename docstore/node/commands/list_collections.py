"""listCollections: the collections of a database, as a cursor."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from bson.binary import Binary, UuidRepresentation

from docstore.bson import document_to_python, from_python
from docstore.collection.collection import Collection
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
    found: list[bytes] = []
    for namespace in sorted(store.namespaces(context.db)):
        collection = store.collection(namespace)
        if collection is None:
            continue
        raw = from_python(describe(collection))[1]
        if wanted is None or wanted.matches(raw):
            short = {"name": collection.name, "type": "collection"}
            found.append(from_python(short)[1] if arguments["nameOnly"] else raw)
    return first_batch(
        context, ListSource(found), batch_size=batch_size, catalog=True, namespace=f"{context.db}.$cmd.listCollections"
    )


def describe(collection: Collection) -> dict[str, Any]:
    """One entry of the list."""
    return {
        "name": collection.name,
        "type": "collection",
        "options": collection.options,
        "info": {
            "readOnly": False,
            "uuid": Binary.from_uuid(collection.uuid, UuidRepresentation.STANDARD),
        },
        "idIndex": document_to_python(collection.id_index.spec.raw),
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
