"""`insert`: each document to the shard that owns its key; a database is created by its first document."""

from __future__ import annotations

from typing import Any

import bson
from bson.objectid import ObjectId

from docstore.bson import document_from, elements, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from mongos.router import router_of
from mongos.routing.targeting import insert_target
from mongos.routing.writes import BatchWrite, Kind

KIND = Kind("documents", insert_target, len)
MAX_DOCUMENTS = 100_000


def with_id(document: bytes) -> bytes:
    """The document with an `_id`, made here when the client sent none: a retry must not make another one."""
    if get_field(document, "_id") is not None:
        return document
    return document_from([*elements(bson.encode({"_id": ObjectId()})), *elements(document)])


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    documents = [with_id(document) for document in context.documents("documents")]
    if not 0 < len(documents) <= MAX_DOCUMENTS:
        raise CommandError(
            Code.InvalidLength,
            f"Write batch sizes must be between 1 and {MAX_DOCUMENTS}. Got {len(documents)} operations.",
        )
    batch = BatchWrite(
        context, KIND, documents, ordered=args["ordered"], shards=router.shards, cache=router.cache,
        accounting=router.autosplit, ensure_database=router.ensure_database,
    )  # fmt: skip
    return await batch.run()


COMMAND = Command(
    "insert",
    run,
    privilege=Privilege("insert", Resource.COLLECTION),
    role=Role.PRIMARY,
    value=Type.COLLECTION,
    retryable=True,
    stable=True,
    parameters=(
        Parameter("documents", Type.DOCUMENTS, required=True),
        Parameter("ordered", Type.BOOL, default=True),
        Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False),
    ),
    help="Insert documents.",
)
