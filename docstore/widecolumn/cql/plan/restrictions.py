"""The conditions of a WHERE clause: relations resolved against the schema and grouped by column.

This module refuses conditions that no statement may have: unknown columns, two conditions on a column that exclude
each other in form, operators that are not supported. `docstore.widecolumn.cql.plan.access_path` chooses how to serve
each condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from docstore.widecolumn.cql.errors import CqlError, invalid, unsupported
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
from docstore.widecolumn.cql.types.collections import ListType, TupleType, collection_of_cells
from docstore.widecolumn.cql.types.native import has_durations

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
    """The condition on one column, or on the token: one value, one of several, or a range."""

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
        """True if it lists its values (`=` or IN)."""
        return self.equal is not None or self.among is not None

    def add(self, operator: Operator, value: Required) -> None:
        """Add another condition. CqlError if the two exclude each other in form."""
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


@dataclass(frozen=True, slots=True, eq=False)
class TupleSlice:
    """(columns) operator (values), compared from the left."""

    columns: tuple[Column, ...]
    operator: Operator
    values: tuple[Required, ...]

    @property
    def is_lower(self) -> bool:
        return self.operator in (Operator.GT, Operator.GE)

    @property
    def inclusive(self) -> bool:
        return self.operator in (Operator.GE, Operator.LE)


@dataclass(frozen=True, slots=True, eq=False)
class TupleIn:
    """(columns) IN (tuples)."""

    columns: tuple[Column, ...]
    values: Tuples


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCondition:
    """The restriction of one column. `columns` holds that column alone."""

    columns: tuple[Column, ...]
    restriction: Restriction


@dataclass(frozen=True, slots=True, eq=False)
class TokenCondition:
    """The restriction of the token. `columns`: the partition key."""

    columns: tuple[Column, ...]
    restriction: Restriction


RowCondition = ColumnCondition | TupleSlice | TupleIn
Condition = RowCondition | TokenCondition
"""One condition of a WHERE clause, equal to itself alone."""


def is_slice(condition: RowCondition) -> bool:
    if isinstance(condition, TupleIn):
        return False
    return isinstance(condition, TupleSlice) or condition.restriction.is_slice


@dataclass(slots=True)
class Restrictions:
    """The conditions in the order of their first relations. `columns`: the single-column ones, by name."""

    conditions: list[Condition] = field(default_factory=list)
    columns: dict[str, Restriction] = field(default_factory=dict)
    token: TokenCondition | None = None

    def on(self, column: Column) -> Restriction | None:
        """The single-column restriction."""
        return self.columns.get(column.name)

    def on_any(self, columns: Sequence[Column]) -> list[RowCondition]:
        """Return the conditions, of single columns or tuples, that mention any of the columns."""
        return [
            condition
            for condition in self.conditions
            if not isinstance(condition, TokenCondition)
            if any(column in columns for column in condition.columns)
        ]

    def restricted(self, columns: Sequence[Column]) -> list[Column]:
        """Return the columns that any condition but the token's is on."""
        return [column for column in columns if self.on_any((column,))]

    def open_column(self, column: Column) -> Restriction:
        """Return the single-column restriction; create it if there is none."""
        restriction = self.columns.get(column.name)
        if restriction is None:
            restriction = self.columns[column.name] = Restriction(column.name)
            self.conditions.append(ColumnCondition((column,), restriction))
        return restriction


def gather(preparation: Preparation, table: Table, where: Sequence[AnyRelation]) -> Restrictions:
    """The restrictions of a WHERE clause. CqlError."""
    restrictions = Restrictions()
    for relation in where:
        if isinstance(relation, TokenRelation):
            _add_token(preparation, table, relation, restrictions)
        elif isinstance(relation, TupleRelation):
            _add_tuple(preparation, table, relation, restrictions)
        else:
            _add_column(preparation, table, relation, restrictions)
    return restrictions


def check_slice_is_last(table: Table, restrictions: Restrictions) -> None:
    """Refuse a clustering column behind one that has a range."""
    sliced: Column | None = None
    conditions = restrictions.on_any(table.clustering)
    for condition in sorted(conditions, key=lambda condition: condition.columns[0].position):
        first = condition.columns[0]
        if sliced is not None and first.position > sliced.position:
            raise invalid(
                f'Clustering column "{first.name}" cannot be restricted '
                f'(preceding column "{sliced.name}" is restricted by a non-EQ relation)'
            )
        if is_slice(condition):
            sliced = first


def is_in(condition: RowCondition) -> bool:
    """True if the condition is an IN."""
    if isinstance(condition, TupleIn):
        return True
    return not isinstance(condition, TupleSlice) and condition.restriction.among is not None


def _add_column(preparation: Preparation, table: Table, relation: Relation, restrictions: Restrictions) -> None:
    column = table.column(relation.column)
    operator = relation.operator
    if collection_of_cells(column.type) is not None:
        if operator in (Operator.CONTAINS, Operator.CONTAINS_KEY):
            raise unsupported(f"{operator.value} is")
        raise invalid(
            f"Collection column '{column.name}' ({column.type.name}) cannot be restricted by a '{operator.value}' "
            "relation"
        )
    _check_operator(operator, relation.column)
    if any(isinstance(condition, TupleSlice | TupleIn) for condition in restrictions.on_any((column,))):
        raise _mixed()
    restriction = restrictions.open_column(column)
    if operator is Operator.IN:
        restriction.add_among(_several(preparation, relation.value, column))
        return
    if operator.is_slice and has_durations(column.type):
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


def _add_token(preparation: Preparation, table: Table, relation: TokenRelation, restrictions: Restrictions) -> None:
    columns = [table.column(name) for name in relation.columns]
    if tuple(columns) != table.partition:
        if {column.name for column in columns} == {column.name for column in table.partition}:
            names = ",".join(column.name for column in table.partition)
            raise invalid(f"The token function arguments must be in the partition key order: {names}")
        raise invalid("The token() function must be applied to all partition key components or none of them")
    _check_operator(relation.operator, "token")
    if restrictions.token is None:
        restrictions.token = TokenCondition(table.partition, Restriction(f"token({', '.join(relation.columns)})"))
        restrictions.conditions.append(restrictions.token)
    kind = token_type(table.keyspace.partitioner)
    evaluate = preparation.term(relation.value, Receiver("partition key token", kind))

    def value(bindings: Bindings) -> bytes:
        bound = evaluate(bindings)
        if not isinstance(bound, bytes):
            raise invalid("Invalid null token value for column partition key token")
        return bound

    restrictions.token.restriction.add(relation.operator, value)


def _add_tuple(preparation: Preparation, table: Table, relation: TupleRelation, restrictions: Restrictions) -> None:
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
    if any(column.name in restrictions.columns for column in columns):
        raise _mixed()
    _check_operator(relation.operator, written)
    if relation.operator is Operator.IN:
        tuple_in = TupleIn(columns, _several_tuples(preparation, relation.value, columns))
        _check_overlap(restrictions, tuple_in)
        restrictions.conditions.append(tuple_in)
        return
    values = _tuple_values(preparation, relation.value, columns)
    if relation.operator is Operator.EQ:
        _check_overlap(restrictions, TupleIn(columns, lambda bindings: []))
        for column, value in zip(columns, values, strict=True):
            restrictions.open_column(column).add(Operator.EQ, value)
    else:
        tuple_slice = TupleSlice(columns, relation.operator, values)
        _check_overlap(restrictions, tuple_slice)
        restrictions.conditions.append(tuple_slice)


def _mixed() -> CqlError:
    return invalid("Mixing single column relations and multi column relations on clustering columns is not allowed")


def _check_overlap(restrictions: Restrictions, added: TupleSlice | TupleIn) -> None:
    """CqlError for tuples that share columns, unless they are the two bounds of one range."""
    for other in restrictions.on_any(added.columns):
        names = ", ".join(column.name for column in other.columns)
        if isinstance(added, TupleIn) or not isinstance(other, TupleSlice):
            raise invalid(f"{names} cannot be restricted by more than one relation if it includes a IN")
        if added.columns[0] != other.columns[0]:
            later = max(added.columns[0], other.columns[0], key=lambda column: column.position)
            raise invalid(
                f'Column "{later.name}" cannot be restricted by two inequalities not starting with the same column'
            )
        if added.is_lower == other.is_lower:
            side = "start" if added.is_lower else "end"
            raise invalid(f"More than one restriction was found for the {side} bound on {names}")


def _tuple_values(preparation: Preparation, term: Term, columns: tuple[Column, ...]) -> tuple[Required, ...]:
    if isinstance(term, TupleTerm):
        if len(term.items) != len(columns):
            raise invalid(f"Expected {len(columns)} elements in value tuple, but got {len(term.items)}")
        return tuple(required(preparation, item, column) for item, column in zip(term.items, columns, strict=True))
    kind = TupleType(tuple(column.type for column in columns))
    evaluate = preparation.term(term, Receiver(f"({','.join(column.name for column in columns)})", kind))

    def part(position: int) -> Required:
        def value(bindings: Bindings) -> bytes:
            bound = evaluate(bindings)
            parts = kind.parts(bound) if isinstance(bound, bytes) else [None] * len(columns)
            return present(parts[position], columns[position])

        return value

    return tuple(part(position) for position in range(len(columns)))


def _several_tuples(preparation: Preparation, term: Term, columns: tuple[Column, ...]) -> Tuples:
    if isinstance(term, Marker):
        raise unsupported("A bind marker for all tuples of an IN is")
    assert isinstance(term, TupleTerm), "the grammar gives IN a tuple or a marker"
    rows = [_tuple_values(preparation, item, columns) for item in term.items]  # type: ignore[arg-type]
    return lambda bindings: [tuple(value(bindings) for value in row) for row in rows]
