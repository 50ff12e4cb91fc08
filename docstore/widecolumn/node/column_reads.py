"""Reads of the column model: from the parsed request to the reply's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docstore.bson import NULL, UNDEFINED, Value, documents_array, from_python
from docstore.bson.build import enclosed
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.snapshot import newest
from docstore.node.slices import PAUSE, Steps
from docstore.widecolumn.model.consistency import Level, level_named
from docstore.widecolumn.model.errors import invalid_request, not_found
from docstore.widecolumn.model.keys import COLUMNS, SUB_COLUMN, SUPER_DELETION, decode_row_key, encode_row_key
from docstore.widecolumn.model.replies import ReplyForm, array_field, check_reply_size, long_field
from docstore.widecolumn.model.requests import RowRange, column_comparator, predicate_of, super_name_of
from docstore.widecolumn.model.slices import Predicate, RowReader, SliceRange
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.replicas import check_read, viewed
from docstore.widecolumn.node.row_keys import find_row_keys
from docstore.widecolumn.node.row_reads import RowQuery, WideCells, check_owned, quorum_of, read_row, row_reader

_AT_ONCE = 1024
_ROWS_AT_ONCE = 64


class SliceQuery(NamedTuple):
    """The read of each row of a request."""

    predicate: Predicate
    super_name: bytes | None
    as_text: bool
    explain: bool

    @property
    def scan(self) -> str:
        backwards = isinstance(self.predicate, SliceRange) and self.predicate.reversed
        return "reverseSlice" if backwards else "slice"


def family_of(context: Context, arguments: Arguments) -> FamilyStore:
    """The column family that a command names. Errors: NamespaceNotFound, CommandNotSupported."""
    family = wide_of(node_of(context)).existing(context.db, arguments.value, context.command.name)
    if family.definition.table is not None:
        raise CommandError(
            Code.CommandNotSupported,
            f"{arguments.value} is a CQL table, which {context.command.name} does not see: use cql",
        )
    return family


def query_of(context: Context, arguments: Arguments) -> RowQuery:
    """The reads of a request. Errors: those of `family_of`, InvalidRequest."""
    return RowQuery.of(context, family_of(context, arguments), level_named(arguments["consistency"]))


def text_wanted(arguments: Arguments) -> bool:
    """True if the reply shows bytes that are valid UTF-8 as strings. Errors: InvalidRequest."""
    bytes_as = arguments["bytesAs"]
    if bytes_as not in (None, "string", "binary"):
        raise invalid_request("bytesAs must be 'string' or 'binary'")
    return bool(bytes_as == "string")


def given(value: Value | None) -> Value | None:
    """Return a value that must be present."""
    return None if value is None or value[0] in (NULL, UNDEFINED) else value


def slice_query_of(found: FamilyStore, arguments: Arguments) -> SliceQuery:
    """Return the predicate of a request and the form of its reply. Errors: InvalidRequest."""
    super_name = super_column_of(found, arguments)
    predicate_argument = given(arguments["predicate"])
    if predicate_argument is None:
        raise invalid_request("predicate parameter is not optional")
    predicate = predicate_of(column_comparator(found.definition, super_name), predicate_argument)
    return SliceQuery(predicate, super_name, text_wanted(arguments), arguments["explain"])


def super_column_of(found: FamilyStore, arguments: Arguments) -> bytes | None:
    return super_name_of(found.definition, given(arguments["superColumn"]))


def _documents(reader: RowReader, found: FamilyStore, form: ReplyForm, wanted: SliceQuery) -> Steps[list[bytes]]:
    """The columns or super columns of a row, as documents."""
    family = found.definition
    if family.is_super and wanted.super_name is None:
        supers = yield from reader.super_columns(wanted.predicate)
        return form.super_columns(supers)
    comparator = column_comparator(family, wanted.super_name)
    names = form.of_names(comparator)
    if names is not None and isinstance(wanted.predicate, SliceRange):
        return (yield from reader.documents(wanted.predicate, wanted.super_name, names, check_reply_size))
    columns = yield from reader.columns(wanted.predicate, wanted.super_name)
    if len(columns) <= _AT_ONCE:
        return form.columns(columns, comparator)
    documents: list[bytes] = []
    size = 0
    for at in range(0, len(columns), _AT_ONCE):
        batch = form.columns(columns[at : at + _AT_ONCE], comparator)
        size += sum(map(len, batch))
        check_reply_size(size)
        documents += batch
        yield PAUSE
    return documents


def _points(found: FamilyStore, wanted: SliceQuery) -> tuple[bytes, ...]:
    """Return the paths that the read will need."""
    family, super_name = found.definition, wanted.super_name
    comparator = column_comparator(family, super_name)
    base = COLUMNS
    paths: list[bytes] = []
    if super_name is not None:
        base += family.comparator.encode(super_name)
        paths.append(base + SUPER_DELETION)
        base += SUB_COLUMN
    if isinstance(wanted.predicate, tuple) and comparator.ordered and (not family.is_super or super_name is not None):
        paths += [base + comparator.encode(name) for name in set(wanted.predicate)]
    return tuple(paths)


def row_documents(query: RowQuery, key: bytes, wanted: SliceQuery) -> Steps[list[bytes]]:
    """Return the requested columns of one row, as documents."""
    family = query.found
    form = ReplyForm(family.definition, query.now, as_text=wanted.as_text)
    return read_row(
        query, key, lambda reader: _documents(reader, family, form, wanted), points=_points(family, wanted)
    )  # fmt: skip


def supers_shown(found: FamilyStore, wanted: SliceQuery) -> bool:
    """True if a row's result consists of super columns."""
    return found.definition.is_super and wanted.super_name is None


def reply_slice(query: RowQuery, key: bytes, wanted: SliceQuery) -> Steps[bytes]:
    """The reply to a slice of one row."""
    documents = yield from row_documents(query, key, wanted)
    columns_field = array_field(documents, supers=supers_shown(query.found, wanted))
    return enclosed(columns_field + tail_fields(query, wanted, 1, wanted.scan))


def tail_fields(query: RowQuery, wanted: SliceQuery, rows: int, scan: str) -> bytes:
    """Return the encoded `warnings` and `explain`, if any."""
    warnings = query.finish()
    parts = b""
    if warnings:
        parts += b"\x04warnings\0" + from_python(warnings)[1]
    if wanted.explain:
        parts += b"\x03explain\0" + from_python(query.explained(rows, scan))[1]
    return parts


def reply_get(query: RowQuery, key: bytes, wanted: SliceQuery) -> Steps[bytes]:
    """The reply with one column or super column. NotFound."""
    documents = _newest_column(query, key, wanted)
    if documents is None:
        documents = yield from row_documents(query, key, wanted)
    if not documents:
        query.finish()
        raise not_found()
    name = b"\x03superColumn\0" if supers_shown(query.found, wanted) else b"\x03column\0"
    return enclosed(name + documents[0] + tail_fields(query, wanted, 1, wanted.scan))


def _newest_column(query: RowQuery, key: bytes, wanted: SliceQuery) -> list[bytes] | None:
    """Return one column in its current state on this node, without a snapshot, if one member is enough; None if the
    read needs more.
    """
    family = query.found
    if query.level is not Level.ONE or not isinstance(wanted.predicate, tuple) or supers_shown(family, wanted):
        return None
    at_once, owned = newest(query.context)
    if not at_once:
        return None
    check_owned(family, owned, key)
    row_key = encode_row_key(family.keyspace.partitioner, key)
    column = row_reader(query, WideCells(query.node.engine), row_key).column(wanted.predicate[0], wanted.super_name)
    if column is None:
        return []
    form = ReplyForm(family.definition, query.now, as_text=wanted.as_text)
    return form.columns((column,), column_comparator(family.definition, wanted.super_name))


def reply_count(query: RowQuery, key: bytes, super_name: bytes | None, *, explain: bool) -> Steps[bytes]:
    """The reply with the number of live columns or super columns."""
    supers = query.found.definition.is_super and super_name is None
    slice_query = SliceQuery(SliceRange(), super_name, False, explain)

    def act(reader: RowReader) -> Steps[int]:
        return reader.count_super_columns() if supers else reader.count_columns(super_name)

    count = yield from read_row(query, key, act)
    return enclosed(long_field(b"n", count) + tail_fields(query, slice_query, 1, "slice"))


def reply_multiget(query: RowQuery, keys: Sequence[bytes], wanted: SliceQuery) -> Steps[bytes]:
    """Return the reply with all requested rows, in the order of the request."""
    form = ReplyForm(query.found.definition, query.now, as_text=wanted.as_text)
    supers = supers_shown(query.found, wanted)
    rows: list[bytes] = []
    size = 0
    for key in keys:
        documents = yield from row_documents(query, key, wanted)
        rows.append(form.row(key, documents, supers=supers))
        size += len(rows[-1])
        check_reply_size(size)
        yield PAUSE
    return _rows_reply(query, rows, wanted, len(keys), wanted.scan)


def _rows_reply(query: RowQuery, rows: Sequence[bytes], wanted: SliceQuery, read: int, scan: str) -> bytes:
    rows_field = b"\x04rows\0" + documents_array(rows)
    return enclosed(rows_field + tail_fields(query, wanted, read, scan))


class RangeQuery(NamedTuple):
    """At most `limit` rows of ranges of the ring. Includes rows without columns unless `exclude_empty`."""

    ranges: Sequence[RowRange]
    limit: int
    exclude_empty: bool


def reply_ranges(query: RowQuery, asked: RangeQuery, wanted: SliceQuery) -> Steps[bytes]:
    """The reply with rows in the order of the ring. Errors: InvalidRequest."""
    if asked.limit <= 0:
        raise invalid_request("maxRows must be positive")
    needed = check_read(query.node, query.found.keyspace, query.level)
    form = ReplyForm(query.found.definition, query.now, as_text=wanted.as_text)
    rows: list[bytes] = []
    size = read = 0
    for ring_range in asked.ranges:
        start = ring_range.start
        while len(rows) < asked.limit:
            row_keys = yield from list_row_keys(
                query, needed, start, ring_range.end, min(asked.limit - len(rows), _ROWS_AT_ONCE)
            )
            for key, documents in (yield from _rows(query, row_keys, needed, wanted, form)):
                read += 1
                if documents or not asked.exclude_empty:
                    rows.append(form.row(key, documents, supers=supers_shown(query.found, wanted)))
                    size += len(rows[-1])
            check_reply_size(size)
            if not row_keys:
                break
            start = row_keys[-1] + b"\xff"
    return _rows_reply(query, rows, wanted, read, "rowRange")


def list_row_keys(query: RowQuery, needed: int, start: bytes, end: bytes, limit: int) -> Steps[list[bytes]]:
    """Return the next rows of the ring, as the furthest of the members that the level requires has them."""
    view = yield from viewed(query.context, query.found, query.level)
    try:
        if needed == 1:
            return (yield from find_row_keys(query.found, view.reader, view.owned, start, end, limit))
    finally:
        view.release()
    row_keys: list[bytes] = yield quorum_of(query, needed).list_rows(start, end, limit, view.owned)
    return row_keys


def _rows(
    query: RowQuery, row_keys: Sequence[bytes], needed: int, wanted: SliceQuery, form: ReplyForm
) -> Steps[list[tuple[bytes, list[bytes]]]]:
    """(key, documents) of rows."""
    family = query.found
    rows: list[tuple[bytes, list[bytes]]] = []
    if needed > 1:
        for row_key in row_keys:
            key = decode_row_key(family.keyspace.partitioner, row_key)
            rows.append((key, (yield from row_documents(query, key, wanted))))
        return rows
    view = yield from viewed(query.context, query.found, query.level)
    try:
        cells = WideCells(view.reader)
        for row_key in row_keys:
            documents = yield from _documents(row_reader(query, cells, row_key), family, form, wanted)
            rows.append((decode_row_key(family.keyspace.partitioner, row_key), documents))
            yield PAUSE
        return rows
    finally:
        view.release()
