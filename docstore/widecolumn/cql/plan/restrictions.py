"""What a WHERE clause asks of each column: relations resolved against the schema and put together by column.

Refused here is what no statement may ask: unknown columns, two conditions on a column that exclude each other in form,
operators that are not served. What a kind of statement may ask stands with that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from docstore.widecolumn.cql.errors import invalid, unsupported
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Bound
from docstore.widecolumn.cql.plan.partition_keys import token_type
from docstore.widecolumn.cql.plan.terms import Evaluate, Preparation, Receiver
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.cql.statements import (
    AnyRelation,
    Expression,
    Marker,
    Operator,
    Relation,
    Term,
    TokenRelation,
    TupleRelation,
    TupleTerm,
)
from docstore.widecolumn.cql.types.collections import ListType, TupleType

Required = Callable[[Bindings], bytes]
"""A value that cannot be null."""
Several = Callable[[Bindings], list[bytes]]
Tuples = Callable[[Bindings], list[tuple[bytes, ...]]]


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """One end of a range."""

    value: Required
    inclusive: bool


@dataclass(slots=True)
class Restriction:
    """What is asked of one column, or of the token: one value, one of several, or a range."""

    name: str
    equal: Required | None = None
    among: Several | None = None
    lower: RangeEnd | None = None
    upper: RangeEnd | None = None

    @property
    def is_slice(self) -> bool:
        return self.lower is not None or self.upper is not None

    @property
    def is_point(self) -> bool:
        """Whether it names its values one by one."""
        return self.equal is not None or self.among is not None

    def add(self, operator: Operator, value: Required) -> None:
        """Another condition. CqlError when both cannot stand together."""
        if operator is Operator.EQ:
            if self.is_point or self.is_slice:
                raise invalid(f"{self.name} cannot be restricted by more than one relation if it includes an Equal")
            self.equal = value
            return
        self._check_alone()
        end = RangeEnd(value, operator in (Operator.LE, Operator.GE))
        lower = operator in (Operator.GT, Operator.GE)
        if (self.lower if lower else self.upper) is not None:
            side = "start" if lower else "end"
            raise invalid(f"More than one restriction was found for the {side} bound on {self.name}")
        if lower:
            self.lower = end
        else:
            self.upper = end

    def add_among(self, values: Several) -> None:
        self._check_alone()
        if self.is_slice:
            raise invalid(f"{self.name} cannot be restricted by more than one relation if it includes a IN")
        self.among = values

    def _check_alone(self) -> None:
        if self.equal is not None:
            raise invalid(f"{self.name} cannot be restricted by more than one relation if it includes an Equal")
        if self.among is not None:
            raise invalid(f"{self.name} cannot be restricted by more than one relation if it includes a IN")


@dataclass(frozen=True, slots=True)
class TupleSlice:
    """(columns) operator (values), compared from the left."""

    columns: tuple[Column, ...]
    operator: Operator
    values: tuple[Required, ...]


@dataclass(frozen=True, slots=True)
class TupleIn:
    columns: tuple[Column, ...]
    values: Tuples


@dataclass(slots=True)
class Restrictions:
    """`columns` by name; tuples restrict clustering columns that follow each other."""

    columns: dict[str, Restriction] = field(default_factory=dict)
    slices: list[TupleSlice] = field(default_factory=list)
    among: list[TupleIn] = field(default_factory=list)
    token: Restriction | None = None

    def on(self, column: Column) -> Restriction | None:
        return self.columns.get(column.name)

    def in_tuples(self) -> set[str]:
        """The columns that tuples restrict."""
        groups = [*(part.columns for part in self.slices), *(part.columns for part in self.among)]
        return {column.name for columns in groups for column in columns}

    def restricted(self, columns: Sequence[Column]) -> list[Column]:
        """Those of the columns that anything is asked of."""
        tuples = self.in_tuples()
        return [column for column in columns if column.name in self.columns or column.name in tuples]


def gather(
    preparation: Preparation, table: Table, where: Sequence[AnyRelation], *, allow_filtering: bool = False
) -> Restrictions:
    """The restrictions of a WHERE clause. CqlError."""
    found = Restrictions()
    for relation in where:
        if isinstance(relation, TokenRelation):
            _add_token(preparation, table, relation, found)
        elif isinstance(relation, TupleRelation):
            _add_tuple(preparation, table, relation, found)
        else:
            _add_column(preparation, table, relation, found)
        if not allow_filtering:
            _check_order(table, found)
    return found


def _add_column(preparation: Preparation, table: Table, relation: Relation, found: Restrictions) -> None:
    column = table.column(relation.column)
    operator = relation.operator
    _check_operator(operator, relation.column)
    restriction = found.columns.setdefault(column.name, Restriction(column.name))
    if operator is Operator.IN:
        restriction.add_among(_several(preparation, relation.value, column))
        return
    if operator.is_slice and column.type.comparator is None:
        raise invalid(f"Slice restrictions are not supported on {column.type.name} columns")
    restriction.add(operator, required(preparation, relation.value, column))


def _check_operator(operator: Operator, name: str) -> None:
    if operator is Operator.NE:
        raise invalid(f'Unsupported "!=" relation: {name} !=')
    if operator in (Operator.CONTAINS, Operator.CONTAINS_KEY):
        raise invalid(f"Cannot use {operator.value} on non-collection column {name}")
    if operator is Operator.LIKE:
        raise invalid("LIKE restriction is only supported on properly indexed columns")
    if operator is Operator.IS_NOT_NULL:
        raise invalid(f"Unsupported restriction: {name} IS NOT NULL")


def required(preparation: Preparation, term: Expression, column: Column) -> Required:
    """The value of a term in a place that takes no null."""
    return not_null(preparation.term(term, Receiver(column.name, column.type)), column)


def not_null(evaluate: Evaluate, column: Column) -> Required:
    def checked_value(bindings: Bindings) -> bytes:
        return present(evaluate(bindings), column)

    return checked_value


def present(value: Bound, column: Column) -> bytes:
    """The value itself; null and unset are refused."""
    if value is UNSET:
        raise invalid(f"Invalid unset value for column {column.name}")
    if not isinstance(value, bytes):
        if column.kind.is_key:
            raise invalid(f"Invalid null value in condition for column {column.name}")
        raise invalid(f"Unsupported null value for column {column.name}")
    return value


def _several(preparation: Preparation, term: Term, column: Column) -> Several:
    """The values of `IN (...)`, or of `IN ?`, which takes a list."""
    if isinstance(term, TupleTerm):
        values = [required(preparation, item, column) for item in term.items if not isinstance(item, TupleTerm)]
        if len(values) != len(term.items):
            raise invalid(f"Invalid tuple literal for {column.name} of type {column.type.name}")
        return lambda bindings: [value(bindings) for value in values]
    kind = ListType(column.type)
    evaluate = preparation.term(term, Receiver(f"in({column.name})", kind))

    def listed(bindings: Bindings) -> list[bytes]:
        bound = evaluate(bindings)
        if not isinstance(bound, bytes):
            raise invalid(f"Invalid {'unset' if bound is UNSET else 'null'} value for column {column.name}")
        return kind.items(bound)

    return listed


def _add_token(preparation: Preparation, table: Table, relation: TokenRelation, found: Restrictions) -> None:
    columns = [table.column(name) for name in relation.columns]
    if tuple(columns) != table.partition:
        if {column.name for column in columns} == {column.name for column in table.partition}:
            names = ",".join(column.name for column in table.partition)
            raise invalid(f"The token function arguments must be in the partition key order: {names}")
        raise invalid("The token() function must be applied to all partition key components or none of them")
    _check_operator(relation.operator, "token")
    found.token = found.token or Restriction(f"token({', '.join(relation.columns)})")
    kind = token_type(table.keyspace.partitioner)
    evaluate = preparation.term(relation.value, Receiver("partition key token", kind))

    def value(bindings: Bindings) -> bytes:
        bound = evaluate(bindings)
        if not isinstance(bound, bytes):
            raise invalid("Invalid null token value for column partition key token")
        return bound

    found.token.add(relation.operator, value)


def _add_tuple(preparation: Preparation, table: Table, relation: TupleRelation, found: Restrictions) -> None:
    columns = tuple(table.column(name) for name in relation.columns)
    written = ", ".join(relation.columns)
    for column in columns:
        if column.kind is not ColumnKind.CLUSTERING:
            raise invalid(
                f"Multi-column relations can only be applied to clustering columns but was applied to: {column.name}"
            )
    if len(set(columns)) != len(columns):
        raise invalid(f"Column names in multi-column relations must be unique: ({written})")
    first = columns[0].position
    if [column.position for column in columns] != list(range(first, first + len(columns))):
        raise invalid(
            "Clustering columns may not be skipped in multi-column relations. They should appear in the PRIMARY KEY "
            f"order. Got ({written}) {relation.operator.value}"
        )
    if any(column.name in found.columns for column in columns):
        raise invalid("Mixing single column relations and multi column relations on clustering columns is not allowed")
    _check_operator(relation.operator, written)
    if relation.operator is Operator.IN:
        found.among.append(TupleIn(columns, _several_tuples(preparation, relation.value, columns)))
        return
    values = _tuple_values(preparation, relation.value, columns)
    if relation.operator is Operator.EQ:
        for column, value in zip(columns, values, strict=True):
            found.columns.setdefault(column.name, Restriction(column.name)).add(Operator.EQ, value)
    else:
        found.slices.append(TupleSlice(columns, relation.operator, values))


def _tuple_values(preparation: Preparation, term: Term, columns: tuple[Column, ...]) -> tuple[Required, ...]:
    if isinstance(term, TupleTerm):
        if len(term.items) != len(columns):
            raise invalid(f"Expected {len(columns)} elements in value tuple, but got {len(term.items)}")
        return tuple(required(preparation, item, column) for item, column in zip(term.items, columns, strict=True))
    kind = TupleType(tuple(column.type for column in columns))
    evaluate = preparation.term(term, Receiver(f"({','.join(column.name for column in columns)})", kind))

    def part(place: int) -> Required:
        def value(bindings: Bindings) -> bytes:
            bound = evaluate(bindings)
            parts = kind.parts(bound) if isinstance(bound, bytes) else [None] * len(columns)
            return present(parts[place], columns[place])

        return value

    return tuple(part(place) for place in range(len(columns)))


def _several_tuples(preparation: Preparation, term: Term, columns: tuple[Column, ...]) -> Tuples:
    if isinstance(term, Marker):
        raise unsupported("A bind marker for all tuples of an IN is")
    assert isinstance(term, TupleTerm), "the grammar gives IN a tuple or a marker"
    rows = [_tuple_values(preparation, item, columns) for item in term.items]  # type: ignore[arg-type]
    return lambda bindings: [tuple(value(bindings) for value in row) for row in rows]


def _check_order(table: Table, found: Restrictions) -> None:
    """Refuse a clustering column behind one that has a range."""
    slice_on: Column | None = None
    for column in table.clustering:
        restriction = found.on(column)
        if restriction is None:
            continue
        if slice_on is not None:
            raise invalid(
                f'Clustering column "{column.name}" cannot be restricted '
                f'(preceding column "{slice_on.name}" is restricted by a non-EQ relation)'
            )
        if restriction.is_slice:
            slice_on = column
