"""`insert`: each document to the shard that owns its key; a database is created by its first document."""

from __future__ import annotations

from typing import Any

import bson
from bson.objectid import ObjectId

from docstore.bson import document_from, elements, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.writes import INSERT
from mongos.relay.relay import Relaying, relayed
from mongos.routing.targeting import insert_target
from mongos.routing.writes import Kind
from mongos.statements import run_statements

KIND = Kind("documents", insert_target, len)


def with_id(document: bytes) -> bytes:
    """The document with an `_id`, made here when the client sent none: a retry must not make another one."""
    if get_field(document, "_id") is not None:
        return document
    return document_from([*elements(bson.encode({"_id": ObjectId()})), *elements(document)])


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    documents = [with_id(document) for document in context.documents("documents")]
    return await run_statements(context, KIND, documents, ordered=args["ordered"])


RELAYING = Relaying(
    lambda args, targets, _language: targets.of_documents(args["documents"]), b"\x10n\0", statements="documents"
)

COMMAND = INSERT.command(relayed(run, RELAYING))
