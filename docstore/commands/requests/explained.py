"""Parsing of the command inside an explain, as if it came alone."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from docstore.bson import elements, get_field
from docstore.bson.walk import STRING
from docstore.commands.access.membership import is_known_to
from docstore.commands.arguments import Arguments, check_required, convert, take, unknown_field
from docstore.commands.context import Context
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.commands.requests.aggregate import check_explained
from docstore.errors import Code, CommandError
from docstore.query.value.option_fields import duplicate_field, refuse_duplicate
from docstore.query.value.values import text_of, type_name


def explained_command(context: Context, raw: bytes, explainable: Container[str]) -> tuple[str, Arguments]:
    """Return the command's name and arguments, as `explained_arguments`.

    Errors: those of `explained_arguments`; Location40413 for a `$db`: the explain has one for both.
    """
    name, arguments = explained_arguments(context, raw, explainable)
    if get_field(raw, "$db") is not None:
        raise duplicate_field(name, "$db")
    return name, arguments


def explained_arguments(context: Context, raw: bytes, explainable: Container[str]) -> tuple[str, Arguments]:
    """Return the command's name and arguments, from which its needs follow; for `{aggregate: 1}` the value is 1.

    Errors: Location40413; IllegalOperation for a command that is not explainable; InvalidNamespace (also for a `$db`
    other than the explain's); Location13111; those of the command's parameters.
    """
    fields = elements(raw)
    refuse_duplicate("explain", [field for field, _, _ in fields])
    table = context.services.table
    name = table.get(fields[0][0] if fields else "").name
    if name not in explainable:
        raise CommandError(Code.IllegalOperation, f"Cannot explain cmd: {name}")
    _check_database(context, fields)
    command = table.get(name)
    (_, code, data), *parameters = fields
    if code != STRING and name != "aggregate":
        raise CommandError(Code.InvalidNamespace, f"explain of {name} needs the name of a collection")
    value = convert(f"{name}.{name}", command.value, code, data, context.db)
    values: dict[str, Any] = {}
    for field, field_code, field_data in parameters:
        if is_known_to(context.services.access, context.connection, command, command.by_name.get(field)):
            take(name, command.by_name[field], field_code, field_data, context.db, values)
        elif field not in ENVELOPE_FIELDS:
            raise unknown_field(name, field)
    check_required(name, command.by_name, values)
    arguments = Arguments(command.by_name, values, value)
    if name == "aggregate":
        check_explained(arguments, has_write_concern=any(field == "writeConcern" for field, _, _ in parameters))
    return name, arguments


def _check_database(context: Context, fields: list[tuple[str, int, bytes]]) -> None:
    """Refuse a command on another database: privileges are checked on the explain's database."""
    for field, code, data in fields:
        if field != "$db":
            continue
        if code != STRING:
            raise CommandError(13111, f"wrong type for field ($db) {type_name((code, data))} != string")
        if (database := text_of((code, data))) != context.db:
            raise CommandError(
                Code.InvalidNamespace,
                f"Mismatched $db in explain command. Expected {context.db} but got {database}",
            )
