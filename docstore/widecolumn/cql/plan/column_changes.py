"""Changes of columns by SET, VALUES and the targets of DELETE: resolved once, then turned into merges of one row.

A collection that is not frozen is changed by its elements: a value that is written as a whole deletes what stood
before, one microsecond earlier, and then writes its elements. Adding, removing and putting name the elements alone and
read nothing. Elements of a list are named by their index or by their value, so removing them, and setting one, needs
the row as it is (`ColumnChange.reads_row`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Bound
from docstore.widecolumn.cql.plan.terms import Evaluate, Preparation, Receiver
from docstore.widecolumn.cql.run.rows import Row
from docstore.widecolumn.cql.schema.collection_cells import element_path, key_type
from docstore.widecolumn.cql.schema.layout import ColumnPath, column_path
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import Assignment, DeletionTarget
from docstore.widecolumn.cql.types.collections import CollectionType, ListType, MapType, SetType, collection_of_cells
from docstore.widecolumn.cql.types.native import INT
from docstore.widecolumn.limits import MAX_ELEMENT_KEY_BYTES
from docstore.widecolumn.model.cells import Cell, Deletion, tombstone, value_cell
from docstore.widecolumn.model.mutations import Entry

_LOWEST_TIMESTAMP = -(1 << 63)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Common inputs of the writes of one request. `timestamp`: in microseconds, if the statement gives none;
    `max_value`: in bytes; `row`: as it is, for a plan that reads it (None: there is none).
    """

    bindings: Bindings
    timestamp: int
    max_value: int
    row: Row | None = None

    @property
    def now(self) -> int:
        return self.bindings.time.seconds


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of a statement's writes: microseconds, and seconds to live (0: for ever)."""

    timestamp: int
    ttl: int = 0


def _constant_null(_bindings: Bindings) -> Bound:
    return None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A change of one column. `operation`: as of an `Assignment`, or `delete`. `key`: the index or key of the one
    element that is changed.
    """

    column: Column
    value: Evaluate
    operation: str = ""
    key: Evaluate | None = None

    @property
    def reads_row(self) -> bool:
        """True if the change depends on the row as it is."""
        is_list = isinstance(collection_of_cells(self.column.type), ListType)
        return is_list and (self.key is not None or self.operation == "-")

    def entries(self, clustering_key: bytes, stamp: Stamp, writing: WriteContext) -> Iterator[Entry]:
        """Yield the merges of the change in a row. CqlError."""
        path = column_path(self.column, clustering_key)
        kind = collection_of_cells(self.column.type)
        value = self.value(writing.bindings)
        if value is UNSET:
            return
        if kind is None:
            yield path.entry(_cell(self.column, value, stamp, writing))
        elif self.key is not None:
            element = self._element(kind, self.key(writing.bindings), writing)
            yield path.entry(_cell(self.column, value, stamp, writing), element)
        elif self.operation == "delete":
            yield path.deletion(Deletion(stamp.timestamp, writing.now))
        elif self.operation == "-":
            dead = tombstone(stamp.timestamp, writing.now)
            for element in self._named_elements(kind, value, writing):
                yield path.entry(dead, element)
        else:
            if not self.operation and stamp.timestamp - 1 > _LOWEST_TIMESTAMP:
                yield path.deletion(Deletion(stamp.timestamp - 1, writing.now))
            yield from self._added(kind, path, value, stamp, writing)

    def _added(
        self, kind: CollectionType, path: ColumnPath, value: Bound, stamp: Stamp, writing: WriteContext
    ) -> Iterator[Entry]:
        if not isinstance(value, bytes):
            return
        if isinstance(kind, ListType):
            items = kind.items(value)
            keys = writing.bindings.time.list_keys(len(items), prepended=self.operation == "prepend")
            pairs = list(zip(keys, items, strict=True))
        else:
            pairs = kind.pairs(value) if isinstance(kind, MapType) else [(item, b"") for item in kind.items(value)]
            for key, _ in pairs:
                _check_key(kind, key)
        for key, item in pairs:
            yield path.entry(_cell(self.column, item, stamp, writing), element_path(kind, key))

    def _element(self, kind: CollectionType, key: Bound, writing: WriteContext) -> bytes:
        """Return the path of the element that an index or a key names."""
        if isinstance(kind, ListType):
            return self._at_index(key, writing)
        if not isinstance(key, bytes):
            raise invalid(f"Invalid {'unset' if key is UNSET else 'null'} map key")
        _check_key(kind, key)
        return element_path(kind, key)

    def _at_index(self, index: Bound, writing: WriteContext) -> bytes:
        if not isinstance(index, bytes):
            raise invalid("Invalid null value for list index")
        elements = _elements(writing.row, self.column)
        if not elements:
            if self.operation == "delete":
                raise invalid("Attempted to delete an element from a list which is null")
            raise invalid("Attempted to set an element on a list which is null")
        position = int.from_bytes(index, "big", signed=True) if index else -1
        if not 0 <= position < len(elements):
            raise invalid(f"List index {position} out of bound, list has size {len(elements)}")
        return elements[position]

    def _named_elements(self, kind: CollectionType, value: Bound, writing: WriteContext) -> Iterator[bytes]:
        """Yield the paths of the elements that a subtraction removes."""
        if not isinstance(value, bytes):
            return
        if isinstance(kind, ListType):
            doomed = set(kind.items(value))
            whole = None if writing.row is None else _cells(writing.row, self.column).get(self.column.id)
            items = [] if whole is None else kind.items(whole.value)
            pairs = zip(_elements(writing.row, self.column), items, strict=True)
            yield from (path for path, item in pairs if item in doomed)
            return
        for key in SetType(key_type(kind)).items(value):
            _check_key(kind, key)
            yield element_path(kind, key)


def _cells(row: Row, column: Column) -> dict[int, Cell]:
    return row.statics if column.kind is ColumnKind.STATIC else row.cells


def _elements(row: Row | None, column: Column) -> list[bytes]:
    return [] if row is None else list(row.elements.get(column.id, ()))


def _check_key(kind: CollectionType, key: bytes) -> None:
    if len(key) > MAX_ELEMENT_KEY_BYTES:
        what = "Map keys" if isinstance(kind, MapType) else "Set values"
        raise invalid(
            f"{what[:-1]} is too long. {what} are limited to {MAX_ELEMENT_KEY_BYTES} bytes but {len(key)} bytes value "
            "provided"
        )


def _cell(column: Column, value: Bound, stamp: Stamp, writing: WriteContext) -> Cell:
    if not isinstance(value, bytes):
        return tombstone(stamp.timestamp, writing.now)
    if len(value) > writing.max_value:
        raise invalid(
            f"the value of column {column.name} has {len(value)} bytes, more than the limit of {writing.max_value}"
        )
    return value_cell(value, stamp.timestamp, ttl=stamp.ttl, now=writing.now)


def assigned_change(preparation: Preparation, table: Table, assignment: Assignment) -> ColumnChange:
    """Resolve an assignment of SET. CqlError."""
    column = table.column(assignment.column)
    name = column.name
    if column.kind.is_key:
        raise invalid(f"PRIMARY KEY part {name} found in SET part")
    kind = collection_of_cells(column.type)
    if assignment.element is not None:
        if kind is None:
            raise _no_operation(column, "element operation")
        if isinstance(kind, SetType):
            raise invalid(f"Invalid element operation for set column {name}")
        of_value = kind.value if isinstance(kind, MapType) else kind.element
        key = preparation.term(assignment.element, _key_receiver(column, kind))
        return ColumnChange(column, preparation.term(assignment.value, Receiver(f"value({name})", of_value)), key=key)
    operation = assignment.operation
    if operation and kind is None:
        if isinstance(column.type, CollectionType):
            raise _no_operation(column, f"operation ({operation})")
        raise invalid(f"Invalid operation ({operation}) for non counter column {name}")
    if operation == "prepend" and not isinstance(kind, ListType):
        raise invalid(f"Invalid operation ({operation}) for non list column {name}")
    of_value = SetType(kind.key) if operation == "-" and isinstance(kind, MapType) else column.type
    return ColumnChange(column, preparation.term(assignment.value, Receiver(name, of_value)), operation)


def inserted_change(column: Column, value: Evaluate) -> ColumnChange:
    """Return the change that an INSERT makes."""
    return ColumnChange(column, value)


def deletion_change(preparation: Preparation, table: Table, target: DeletionTarget) -> ColumnChange:
    """Resolve a target of DELETE. CqlError."""
    column = table.column(target.column)
    if column.kind.is_key:
        raise invalid(f"Invalid identifier {column.name} for deletion (should not be a PRIMARY KEY part)")
    if target.element is None:
        return ColumnChange(column, _constant_null, "delete")
    kind = collection_of_cells(column.type)
    if kind is None:
        raise _no_operation(column, "deletion operation")
    return ColumnChange(
        column, _constant_null, "delete", preparation.term(target.element, _key_receiver(column, kind))
    )  # fmt: skip


def _no_operation(column: Column, what: str) -> Exception:
    frozen = "frozen" if isinstance(column.type, CollectionType) else "non"
    return invalid(f"Invalid {what} for {frozen} collection column {column.name}")


def _key_receiver(column: Column, kind: CollectionType) -> Receiver:
    if isinstance(kind, ListType):
        return Receiver(f"idx({column.name})", INT)
    return Receiver(f"{'key' if isinstance(kind, MapType) else 'value'}({column.name})", key_type(kind))
