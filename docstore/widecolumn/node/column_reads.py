"""Reads of the column model: from the parsed request to the reply's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docstore.bson import documents_array, from_python
from docstore.bson.build import enclosed
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.slices import PAUSE, Steps
from docstore.widecolumn.model.column_families import ColumnFamily
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.errors import invalid_request, not_found
from docstore.widecolumn.model.keys import COLUMNS, SUB_COLUMN, SUPER_DELETION, decode_row_key
from docstore.widecolumn.model.replies import ReplyForm, array_field, check_reply_size, long_field
from docstore.widecolumn.model.requests import (
    RowRange,
    check_path,
    column_comparator,
    given,
    predicate_of,
    super_name_of,
)
from docstore.widecolumn.model.slices import Predicate, RowReader, SliceRange
from docstore.widecolumn.model.values import column_form, encoded_name
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.read_state import ReadState, owned_rows, read_own
from docstore.widecolumn.node.record_pages import find_row_keys
from docstore.widecolumn.node.replicas import check_read
from docstore.widecolumn.node.row_reads import RowQuery, quorum_of, read_row, row_reader

_AT_ONCE = 1024
_ROWS_AT_ONCE = 64


class SliceQuery:
    """The read of each row of a request. `predicate`: of columns, or of super columns (`of_supers`), names in the form
    of keys; `comparator`: of their names; `form`: the kernel's form of columns with such names, if it has one.
    """

    __slots__ = ("as_text", "comparator", "explain", "form", "of_supers", "predicate", "super_name")

    def __init__(
        self, family: ColumnFamily, predicate: Predicate, super_name: bytes | None, *, as_text: bool, explain: bool
    ) -> None:
        self.predicate = predicate
        self.super_name = super_name
        self.as_text = as_text
        self.explain = explain
        self.of_supers = super_name is None and family.subcomparator is not None
        self.comparator = comparator = column_comparator(family, super_name)
        self.form = None if self.of_supers else column_form(comparator, as_text=as_text)

    @property
    def scan(self) -> str:
        backwards = isinstance(self.predicate, SliceRange) and self.predicate.reversed
        return "reverseSlice" if backwards else "slice"


def family_of(context: Context, arguments: Arguments) -> FamilyStore:
    """The column family that a command names. Errors: NamespaceNotFound, CommandNotSupported."""
    wide = wide_of(node_of(context))
    family = wide.known(context.namespace) or wide.existing(context.db, arguments.value, context.command.name)
    if family.definition.table is not None:
        raise CommandError(
            Code.CommandNotSupported,
            f"{arguments.value} is a CQL table, which {context.command.name} does not see: use cql",
        )
    return family


def query_of(context: Context, arguments: Arguments) -> RowQuery:
    """The reads of a request. Errors: those of `family_of`, InvalidRequest."""
    return RowQuery(context, family_of(context, arguments), level_named(arguments["consistency"]))


def text_wanted(arguments: Arguments) -> bool:
    """True if the reply shows bytes that are valid UTF-8 as strings. Errors: InvalidRequest."""
    bytes_as = arguments["bytesAs"]
    if bytes_as not in (None, "string", "binary"):
        raise invalid_request("bytesAs must be 'string' or 'binary'")
    return bool(bytes_as == "string")


def slice_query_of(found: FamilyStore, arguments: Arguments) -> SliceQuery:
    """Return the predicate of a request and the form of its reply. Errors: InvalidRequest."""
    super_name = super_column_of(found, arguments)
    predicate_argument = given(arguments["predicate"])
    if predicate_argument is None:
        raise invalid_request("predicate parameter is not optional")
    family = found.definition
    predicate = predicate_of(column_comparator(family, super_name), predicate_argument)
    return SliceQuery(
        family, predicate, super_name, as_text=text_wanted(arguments), explain=arguments["explain"]
    )  # fmt: skip


def path_query_of(found: FamilyStore, arguments: Arguments) -> SliceQuery:
    """Return the read of the one column or super column of a path. Errors: InvalidRequest."""
    super_name = super_column_of(found, arguments)
    column = given(arguments["column"])
    family = found.definition
    check_path(family, super_name, column, whole_super=True)
    as_text, explain = text_wanted(arguments), arguments["explain"]
    if column is None:
        assert super_name is not None, "the path names something"
        return SliceQuery(
            family, (family.comparator.encode(super_name),), None, as_text=as_text, explain=explain
        )  # fmt: skip
    name = encoded_name(column_comparator(family, super_name), column)
    return SliceQuery(family, (name,), super_name, as_text=as_text, explain=explain)


def super_column_of(found: FamilyStore, arguments: Arguments) -> bytes | None:
    return super_name_of(found.definition, given(arguments["superColumn"]))


def _documents(reader: RowReader, query: RowQuery, wanted: SliceQuery) -> Steps[list[bytes]]:
    """The columns or super columns of a row, as documents."""
    if wanted.form is not None:
        return reader.documents(wanted.predicate, wanted.super_name, wanted.form, check_reply_size)
    return _shown(reader, ReplyForm(query.found.definition, query.now, as_text=wanted.as_text), wanted)


def _shown(reader: RowReader, form: ReplyForm, wanted: SliceQuery) -> Steps[list[bytes]]:
    """Super columns, or columns of a comparator that the kernel does not know."""
    predicate, decode = wanted.predicate, wanted.comparator.decode
    if isinstance(predicate, tuple):
        predicate = tuple(decode(name, 0)[0] for name in predicate)
    if wanted.of_supers:
        supers = yield from reader.super_columns(predicate)
        return form.super_columns(supers)
    columns = yield from reader.columns(predicate, wanted.super_name)
    documents: list[bytes] = []
    size = 0
    for at in range(0, len(columns), _AT_ONCE):
        if at:
            yield PAUSE
        batch = form.columns(columns[at : at + _AT_ONCE], wanted.comparator)
        size += sum(map(len, batch))
        check_reply_size(size)
        documents += batch
    return documents


def _points(found: FamilyStore, wanted: SliceQuery) -> tuple[bytes, ...]:
    """Return the paths that the read will need."""
    family, super_name = found.definition, wanted.super_name
    base = COLUMNS
    paths: list[bytes] = []
    if super_name is not None:
        base += family.comparator.encode(super_name)
        paths.append(base + SUPER_DELETION)
        base += SUB_COLUMN
    if isinstance(wanted.predicate, tuple) and wanted.comparator.ordered and not wanted.of_supers:
        paths += [base + name for name in set(wanted.predicate)]
    return tuple(paths)


def row_documents(query: RowQuery, key: bytes, wanted: SliceQuery) -> Steps[list[bytes]]:
    """Return the requested columns of one row, as documents."""
    return read_row(
        query, key, lambda reader: _documents(reader, query, wanted), lambda: _points(query.found, wanted)
    )  # fmt: skip


def reply_slice(query: RowQuery, key: bytes, wanted: SliceQuery) -> Steps[bytes]:
    """The reply to a slice of one row."""
    documents = yield from row_documents(query, key, wanted)
    return enclosed(array_field(documents, supers=wanted.of_supers) + tail_fields(query, wanted, 1))


def tail_fields(query: RowQuery, wanted: SliceQuery, rows: int, scan: str | None = None) -> bytes:
    """Return the encoded `warnings` and `explain`, if any. `scan`: if it is not a slice."""
    warnings = query.finish()
    parts = b""
    if warnings:
        parts += b"\x04warnings\0" + from_python(warnings)[1]
    if wanted.explain:
        parts += b"\x03explain\0" + from_python(query.explained(rows, scan or wanted.scan))[1]
    return parts


def reply_get(query: RowQuery, key: bytes, wanted: SliceQuery) -> Steps[bytes]:
    """The reply with one column or super column. NotFound."""
    documents = yield from row_documents(query, key, wanted)
    if not documents:
        query.finish()
        raise not_found()
    name = b"\x03superColumn\0" if wanted.of_supers else b"\x03column\0"
    return enclosed(name + documents[0] + tail_fields(query, wanted, 1))


def reply_count(query: RowQuery, key: bytes, super_name: bytes | None, *, explain: bool) -> Steps[bytes]:
    """The reply with the number of live columns or super columns."""
    wanted = SliceQuery(query.found.definition, SliceRange(), super_name, as_text=False, explain=explain)

    def act(reader: RowReader) -> Steps[int]:
        return reader.count_super_columns() if wanted.of_supers else reader.count_columns(super_name)

    count = yield from read_row(query, key, act)
    return enclosed(long_field(b"n", count) + tail_fields(query, wanted, 1))


def reply_multiget(query: RowQuery, keys: Sequence[bytes], wanted: SliceQuery) -> Steps[bytes]:
    """Return the reply with all requested rows, in the order of the request."""
    form = ReplyForm(query.found.definition, query.now, as_text=wanted.as_text)
    rows: list[bytes] = []
    size = 0
    for key in keys:
        documents = yield from row_documents(query, key, wanted)
        rows.append(form.row(key, documents, supers=wanted.of_supers))
        size += len(rows[-1])
        check_reply_size(size)
        yield PAUSE
    return _rows_reply(query, rows, wanted, len(keys))


def _rows_reply(
    query: RowQuery, rows: Sequence[bytes], wanted: SliceQuery, read: int, scan: str | None = None
) -> bytes:
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
            for key, documents in (yield from _rows(query, row_keys, needed, wanted)):
                read += 1
                if documents or not asked.exclude_empty:
                    rows.append(form.row(key, documents, supers=wanted.of_supers))
                    size += len(rows[-1])
            check_reply_size(size)
            if not row_keys:
                break
            start = row_keys[-1] + b"\xff"
    return _rows_reply(query, rows, wanted, read, "rowRange")


def list_row_keys(query: RowQuery, needed: int, start: bytes, end: bytes, limit: int) -> Steps[list[bytes]]:
    """Return the next rows of the ring, as the furthest of the members that the level requires has them."""
    family = query.found
    if needed == 1:

        def own(state: ReadState) -> Steps[list[bytes]]:
            return find_row_keys(family, state, state.owned, start, end, limit)

        return (yield from read_own(query.context, family, query.level, own))
    owned = yield from read_own(query.context, family, query.level, owned_rows)
    row_keys: list[bytes] = yield quorum_of(query, needed).list_rows(start, end, limit, owned)
    return row_keys


def _rows(
    query: RowQuery, row_keys: Sequence[bytes], needed: int, wanted: SliceQuery
) -> Steps[list[tuple[bytes, list[bytes]]]]:
    """(key, documents) of rows."""
    family = query.found
    rows: list[tuple[bytes, list[bytes]]] = []
    if needed > 1:
        for row_key in row_keys:
            key = decode_row_key(family.keyspace.partitioner, row_key)
            rows.append((key, (yield from row_documents(query, key, wanted))))
        return rows

    def own(state: ReadState) -> Steps[None]:
        for row_key in row_keys:
            documents = yield from _documents(row_reader(query, state, row_key), query, wanted)
            rows.append((decode_row_key(family.keyspace.partitioner, row_key), documents))
            yield PAUSE

    yield from read_own(query.context, family, query.level, own)
    return rows
