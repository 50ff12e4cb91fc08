"""The mutations of a batch, parsed in slices and gathered by row. All of them are judged before anything is written."""

from __future__ import annotations

from docstore.bson import OBJECT, STRING, Value
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.columns.encoding import ColumnForm
from docstore.kernel.columns.mutations import take_mutations
from docstore.node.node import DataNode
from docstore.node.slices import PAUSE, Steps
from docstore.query.value.values import TYPE_NAMES, text_of
from docstore.widecolumn.model.cells import stamp_of
from docstore.widecolumn.model.errors import invalid_request
from docstore.widecolumn.model.mutations import Entry, merge_alike, merged_record
from docstore.widecolumn.model.requests import Fields, WriteContext, fields_of, mutation_entries, plain_form
from docstore.widecolumn.model.values import partition_key_of
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.row_writes import RowChange

_FIELDS = frozenset(("key", "columnFamily", "insert", "insertSuper", "deletion"))
_STEP = 128


def batch_rows(
    context: Context, node: DataNode, mutations: list[bytes], writing: WriteContext
) -> Steps[list[RowChange]]:
    """Return the changes of the mutations, by row. Errors: InvalidRequest, NamespaceNotFound."""
    rows: dict[tuple[bytes, bytes], dict[bytes, Entry]] = {}
    families: dict[bytes, FamilyStore] = {}
    forms: dict[bytes, ColumnForm] = {}
    stamp = stamp_of(writing.default_timestamp)
    at, end = 0, len(mutations)
    while at < end:
        stop = min(at + _STEP, end)
        at = take_mutations(mutations, at, stop, forms, rows, Entry, merge_alike, stamp, writing.max_value)
        if at < stop:
            _take(context, node, mutations[at], writing, families, forms, rows)
            at += 1
        if not at % _STEP:
            yield PAUSE
    changes = [RowChange(families[name], key, tuple(entries.values())) for (name, key), entries in rows.items()]
    changes.sort(key=lambda change: change.found.collection.ns)
    return changes


def _take(
    context: Context,
    node: DataNode,
    mutation: bytes,
    writing: WriteContext,
    families: dict[bytes, FamilyStore],
    forms: dict[bytes, ColumnForm],
    rows: dict[tuple[bytes, bytes], dict[bytes, Entry]],
) -> None:
    """Take one mutation of any kind. Remembers its column family and its kernel form for the next ones."""
    fields = fields_of("mutation", (OBJECT, mutation), _FIELDS)
    named = _required(fields, "columnFamily")
    name = named[1]
    family = families.get(name) if named[0] == STRING else None
    if family is None:
        family = families[name] = _family(context, node, named)
        form = plain_form(family.definition)
        if form is not None:
            forms[name] = form
    row = rows.setdefault((name, partition_key_of(_required(fields, "key"))), {})
    for entry in mutation_entries(family.definition, fields, writing):
        standing = row.get(entry.path)
        record = merged_record(None if standing is None else standing.record, entry.record)
        row[entry.path] = entry._replace(record=record)


def _required(fields: Fields, name: str) -> Value:
    value = fields.get(name)
    if value is None:
        raise invalid_request(f"{name} parameter is not optional")
    return value


def _family(context: Context, node: DataNode, named: Value) -> FamilyStore:
    if named[0] != STRING:
        raise invalid_request(f"columnFamily must be a string, not {TYPE_NAMES[named[0]]}")
    family = wide_of(node).existing(context.db, text_of(named), context.command.name)
    if family.definition.table is not None:
        raise CommandError(Code.CommandNotSupported, f"{family.definition.name} is a CQL table: use cql")
    return family
