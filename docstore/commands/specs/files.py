"""Specs of GridFS file commands."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.bson import from_python
from docstore.bson.walk import STRING
from docstore.commands.access.need import Need, on_namespace
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Privilege, Resource, Role, Spec, Type
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace

_PARTS = "files are summed as a whole"


def chunks_of(context: Context, arguments: Arguments) -> str:
    """Return the namespace of the chunks. Errors: InvalidNamespace."""
    code, data = arguments["root"] or from_python("fs")
    if code != STRING:
        raise CommandError(Code.InvalidNamespace, "'root' must be of type String")
    root = text_of(data) or "fs"
    namespace: str = f"{context.db}.{root}.chunks"
    if root.startswith("."):
        raise CommandError(Code.InvalidNamespace, f"Collection names cannot start with '.': {root}.chunks")
    if "\0" in namespace or split_namespace(namespace)[1] != f"{root}.chunks":
        raise CommandError(Code.InvalidNamespace, f"Invalid namespace specified '{namespace}'")
    return namespace


def _needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    return on_namespace(chunks_of(context, arguments), "find")


FILE_MD5 = Spec(
    "filemd5", privilege=Privilege("find", Resource.DATABASE), role=Role.SECONDARY_OK, tolerant=True,
    parameters=(
        Parameter("root", Type.ANY),
        Parameter("partialOk", Type.SAFE_BOOL, unsupported=_PARTS),
        Parameter("md5state", Type.ANY, unsupported=_PARTS),
    ),
    needs=_needs, help="the MD5 sum of a file of GridFS",
)  # fmt: skip
