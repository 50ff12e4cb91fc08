"""The command that an explain reply shows."""

from __future__ import annotations

from collections.abc import Sequence

from docstore.bson import EMPTY_DOCUMENT, document_from, elements, from_python
from docstore.bson.build import array_value
from docstore.bson.walk import OBJECT, Value
from docstore.collection.catalog.views import ResolvedView
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.namespace import split_namespace

_SIMPLE = document_from([("locale", *from_python("simple"))])


def shown_command(context: Context) -> bytes:
    """Return the command inside `explain` with its `$db`; an aggregate with `explain: true` as it was sent."""
    name, code, inner = elements(context.raw)[0]
    if name != "explain" or code != OBJECT:
        return context.raw
    fields = [field for field in elements(inner) if field[0] != "$db"]
    return document_from([*fields, ("$db", *from_python(context.db))])


def command_below(resolved: ResolvedView, stages: Sequence[bytes], arguments: Arguments) -> bytes:
    """Return a read of a view, given as stages, as the aggregate over the underlying collection."""
    members: list[Value] = [(OBJECT, stage) for stage in (*resolved.pipeline, *stages)]
    fields = [
        ("aggregate", *from_python(split_namespace(resolved.ns)[1])),
        ("pipeline", *array_value(members)),
        ("cursor", OBJECT, EMPTY_DOCUMENT),
    ]
    if "allowDiskUse" in arguments:
        fields.append(("allowDiskUse", *from_python(arguments["allowDiskUse"])))
    fields.append(("collation", OBJECT, _SIMPLE if resolved.collation is None else resolved.collation.raw))
    if "let" in arguments:
        fields.append(("let", OBJECT, arguments["let"]))
    return document_from(fields)
