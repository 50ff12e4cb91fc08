"""Privileges needed by explain: those of the explained command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from docstore.bson import elements
from docstore.bson.walk import STRING
from docstore.commands.access.authorization import needs_of
from docstore.commands.access.need import Need
from docstore.commands.requests.explained import explained_arguments
from docstore.commands.values import text_of

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context


def explain_needs(context: Context, arguments: Arguments) -> Iterable[Need]:
    table = context.services.table
    fields = elements(arguments.value)
    if not fields:
        return ()
    command = table.get(fields[0][0])
    _, code, data = fields[0]
    _, inner = explained_arguments(context, arguments.value, frozenset((command.name,)))
    namespace = f"{context.db}.{text_of(data)}" if code == STRING else ""
    return needs_of(context.derived(command=command, namespace=namespace), inner)
