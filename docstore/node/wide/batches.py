"""The mutations of a batch, parsed in slices and gathered by row. All of them are judged before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable

from docstore.bson import OBJECT, STRING, Value
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.node.wide.columns import Found
from docstore.node.wide.slicing import driven
from docstore.node.wide.writing import RowChange
from docstore.query.values import TYPE_NAMES, text_of
from docstore.wide.errors import invalid_request
from docstore.wide.mutations import Entry, folded
from docstore.wide.requests import Fields, Writing, fields_of, mutation_entries
from docstore.wide.slices import Steps
from docstore.wide.values import row_key_of

_FIELDS = frozenset(("key", "columnFamily", "insert", "insertSuper", "deletion"))
_STEP = 128


def batch_rows(
    context: Context, node: DataNode, mutations: list[bytes], writing: Writing
) -> list[RowChange] | Awaitable[list[RowChange]]:
    """What the mutations change, by row. Errors: InvalidRequest, NamespaceNotFound."""
    return driven(context, _parsed(context, node, mutations, writing), _nothing)


def _nothing() -> None:
    """Parsing holds nothing."""


def _parsed(context: Context, node: DataNode, mutations: list[bytes], writing: Writing) -> Steps[list[RowChange]]:
    rows: dict[tuple[str, bytes], list[Entry]] = {}
    families: dict[Value, Found] = {}
    for position, raw in enumerate(mutations, 1):
        fields = fields_of("mutation", (OBJECT, raw), _FIELDS)
        named = _required(fields, "columnFamily")
        found = families.get(named)
        if found is None:
            found = families[named] = _family(context, node, named)
        key = row_key_of(_required(fields, "key"))
        entries = mutation_entries(found.definition, fields, writing)
        row = rows.get((found.definition.name, key))
        if row is None:
            rows[found.definition.name, key] = entries
        else:
            row += entries
        if not position % _STEP:
            yield
    by_name = {found.definition.name: found for found in families.values()}
    changes: list[RowChange] = []
    for (name, key), entries in rows.items():
        changes.append(RowChange(by_name[name], key, folded(entries) if len(entries) > 1 else entries))
        yield
    changes.sort(key=lambda change: change.found.collection.ns)
    return changes


def _required(fields: Fields, name: str) -> Value:
    value = fields.get(name)
    if value is None:
        raise invalid_request(f"{name} parameter is not optional")
    return value


def _family(context: Context, node: DataNode, named: Value) -> Found:
    if named[0] != STRING:
        raise invalid_request(f"columnFamily must be a string, not {TYPE_NAMES[named[0]]}")
    found = node.wide.existing(context.db, text_of(named), context.command.name)
    if found.definition.table is not None:
        raise CommandError(Code.CommandNotSupported, f"{found.definition.name} is a CQL table: use cql")
    return found
