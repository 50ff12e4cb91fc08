"""create: a plain collection with nothing in it but its `_id` index."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.collection.unit import WriteUnit
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.schema import change, check_database_case
from docstore.node.writes import check_writable

_VALIDATION = "document validation is not supported"
_ID_INDEX_KEY = {"_id": 1}


async def run(context: Context, arguments: Arguments) -> Result:
    check_writable(context.namespace)
    if "idIndex" in arguments and document_to_python(arguments["idIndex"]).get("key") != _ID_INDEX_KEY:
        raise CommandError(Code.BadValue, "the key of idIndex must be {_id: 1}")
    store = node_of(context).store

    def act(unit: WriteUnit) -> None:
        if store.collection(context.namespace) is not None:
            raise CommandError(Code.NamespaceExists, f"Collection {context.namespace} already exists.")
        check_database_case(store, context.namespace)
        store.create_collection(unit, context.namespace)

    return await change(context, {}, act)


COMMAND = Command(
    "create", run, privilege=Privilege("createCollection", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.COLLECTION, stable=True, help="make a collection",
    parameters=(
        Parameter("capped", Type.SAFE_BOOL, unsupported="capped collections are not supported"),
        Parameter("size", Type.INT, unsupported="capped collections are not supported"),
        Parameter("max", Type.INT, unsupported="capped collections are not supported"),
        Parameter("autoIndexId", Type.SAFE_BOOL, default=True),
        Parameter("idIndex", Type.OBJECT),
        Parameter("validator", Type.OBJECT, unsupported=_VALIDATION),
        Parameter("validationLevel", Type.STRING, unsupported=_VALIDATION),
        Parameter("validationAction", Type.STRING, unsupported=_VALIDATION),
        Parameter("viewOn", Type.STRING, unsupported="views are not supported"),
        Parameter("pipeline", Type.ARRAY, unsupported="views are not supported"),
        Parameter("collation", Type.OBJECT, unsupported="collations are not supported"),
        Parameter("timeseries", Type.OBJECT, unsupported="time-series collections are not supported"),
        Parameter("clusteredIndex", Type.ANY, unsupported="clustered collections are not supported"),
        Parameter("expireAfterSeconds", Type.INT, unsupported="expiry of documents is not supported"),
        Parameter("changeStreamPreAndPostImages", Type.OBJECT, unsupported="change streams are not supported"),
        Parameter("encryptedFields", Type.OBJECT, unsupported="encrypted collections are not supported"),
        Parameter("storageEngine", Type.OBJECT, unsupported="there are no storage engine options"),
        Parameter("indexOptionDefaults", Type.OBJECT, unsupported="there are no storage engine options"),
    ),
)  # fmt: skip
