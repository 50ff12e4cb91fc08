"""validateDBMetadata: list the indexes that a version of the Stable API does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docstore.commands.access.catalog_needs import validate_metadata_needs
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.node import DataNode, node_of

_API = declared(
    Parameter("version", Type.STRING, required=True),
    Parameter("strict", Type.BOOL, default=False),
    Parameter("deprecationErrors", Type.BOOL, default=False),
)


def run(context: Context, arguments: Arguments) -> Result:
    api = parse_fields("validateDBMetadata.apiParameters", arguments["apiParameters"], _API)
    if not (api["strict"] and api["version"] == "1"):
        return {"apiVersionErrors": []}
    node = node_of(context)
    databases = [arguments["db"]] if arguments["db"] else sorted(node.store.databases())
    return {"apiVersionErrors": [error for name in databases for error in _errors(node, name, arguments["collection"])]}


def _errors(node: DataNode, database: str, only: str | None) -> Iterator[dict[str, Any]]:
    """Yield the reference's errors for `apiStrict` clients; of the indexes supported here it rejects sparse ones."""
    for namespace in node.store.namespaces(database):
        collection = node.store.collection(namespace)
        if collection is None or (only and split_namespace(namespace)[1] != only):
            continue
        for index in collection.indexes.values():
            if index.spec.sparse:
                text = f"The index with name {index.name} is not allowed in API version 1."
                yield {"ns": namespace, **_error(text)}


def _error(text: str) -> dict[str, Any]:
    refusal = CommandError(Code.APIStrictError, text)
    return {"code": refusal.code, "codeName": refusal.code_name, "errmsg": text}


COMMAND = Command(
    "validateDBMetadata", run, privilege=Privilege("validate", Resource.DATABASE), role=Role.ANY,
    needs=validate_metadata_needs,
    parameters=(
        Parameter("db", Type.STRING),
        Parameter("collection", Type.STRING),
        Parameter("apiParameters", Type.OBJECT, required=True),
    ),
    help="what a version of the Stable API does not allow",
)  # fmt: skip
