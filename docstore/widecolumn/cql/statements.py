"""Statements as trees: the parsed text, before any look-up. All values are immutable and may be shared.

Names are folded to lower case unless they were quoted. A bind marker has its position.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ConstantKind(Enum):
    """The notation of a constant; the value is the name that error texts use."""

    STRING = "STRING"
    INTEGER = "INTEGER"
    FLOAT = "FLOAT"
    BOOLEAN = "BOOLEAN"
    UUID = "UUID"
    HEX = "HEX"
    DURATION = "DURATION"


@dataclass(frozen=True, slots=True)
class Constant:
    """`text`: as written, without quotes."""

    kind: ConstantKind
    text: str


@dataclass(frozen=True, slots=True)
class Null:
    pass


@dataclass(frozen=True, slots=True)
class Marker:
    """`?`, or `:name`; `position` is its offset in the text, so markers sort in text order."""

    position: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ListTerm:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class SetTerm:
    """A set; also the empty map, which has the same notation."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapTerm:
    items: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class TupleTerm:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ColumnName:
    name: str


@dataclass(frozen=True, slots=True)
class Star:
    """The `*` of `count(*)`."""


Term = Constant | Null | Marker | Call | ListTerm | SetTerm | MapTerm | TupleTerm
Expression = Term | ColumnName | Star


class Operator(Enum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "IN"
    CONTAINS = "CONTAINS"
    CONTAINS_KEY = "CONTAINS KEY"
    LIKE = "LIKE"
    IS_NOT_NULL = "IS NOT NULL"

    @property
    def is_slice(self) -> bool:
        return self in (Operator.LT, Operator.LE, Operator.GT, Operator.GE)


@dataclass(frozen=True, slots=True)
class Relation:
    """A condition on one column. IN takes a tuple of terms, or one marker for all of them."""

    column: str
    operator: Operator
    value: Term


@dataclass(frozen=True, slots=True)
class TupleRelation:
    """A condition on several columns at once. IN takes a tuple of tuples."""

    columns: tuple[str, ...]
    operator: Operator
    value: Term


@dataclass(frozen=True, slots=True)
class TokenRelation:
    columns: tuple[str, ...]
    operator: Operator
    value: Term


AnyRelation = Relation | TupleRelation | TokenRelation


@dataclass(frozen=True, slots=True)
class TableName:
    keyspace: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Using:
    """USING TIMESTAMP (microseconds) AND TTL (seconds)."""

    timestamp: Term | None = None
    ttl: Term | None = None


@dataclass(frozen=True, slots=True)
class TypeName:
    """`name<parameters>`."""

    name: str
    parameters: tuple[TypeName, ...] = ()


PropertyValue = str | tuple[tuple[str, str], ...]
Properties = tuple[tuple[str, PropertyValue], ...]
"""The options of WITH, in order, maps as pairs."""


@dataclass(frozen=True, slots=True)
class Use:
    keyspace: str


@dataclass(frozen=True, slots=True)
class CreateKeyspace:
    name: str
    if_not_exists: bool
    properties: Properties


@dataclass(frozen=True, slots=True)
class AlterKeyspace:
    name: str
    if_exists: bool
    properties: Properties


@dataclass(frozen=True, slots=True)
class DropKeyspace:
    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    type: TypeName
    static: bool = False
    primary: bool = False


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    partition: tuple[str, ...]
    clustering: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """`order`: (column, descending)."""

    properties: Properties = ()
    order: tuple[tuple[str, bool], ...] = ()
    compact: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: TableName
    if_not_exists: bool
    columns: tuple[ColumnDefinition, ...]
    keys: tuple[PrimaryKey, ...]
    options: TableOptions


@dataclass(frozen=True, slots=True)
class AddColumns:
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class DropColumns:
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameColumns:
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AlterColumnType:
    column: str
    type: TypeName


@dataclass(frozen=True, slots=True)
class AlterTable:
    table: TableName
    if_exists: bool
    change: AddColumns | DropColumns | RenameColumns | AlterColumnType | TableOptions


@dataclass(frozen=True, slots=True)
class DropTable:
    table: TableName
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    table: TableName


@dataclass(frozen=True, slots=True)
class Insert:
    table: TableName
    columns: tuple[str, ...]
    values: tuple[Term, ...]
    if_not_exists: bool
    using: Using


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = value`; `operation`: '' to set, '+' or '-' for `column = column + value`, 'prepend' for
    `column = value + column`; `element`: the key or index of one element.
    """

    column: str
    value: Term
    operation: str = ""
    element: Term | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """`conditions`: None without IF, empty for IF EXISTS."""

    table: TableName
    using: Using
    assignments: tuple[Assignment, ...]
    where: tuple[AnyRelation, ...]
    conditions: tuple[Relation, ...] | None


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """The target of a deletion within a row: a column, or one element of it."""

    column: str
    element: Term | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    table: TableName
    targets: tuple[DeletionTarget, ...]
    using: Using
    where: tuple[AnyRelation, ...]
    conditions: tuple[Relation, ...] | None


Modification = Insert | Update | Delete


class BatchKind(Enum):
    LOGGED = "LOGGED"
    UNLOGGED = "UNLOGGED"
    COUNTER = "COUNTER"


@dataclass(frozen=True, slots=True)
class Batch:
    kind: BatchKind
    using: Using
    statements: tuple[Modification, ...]


@dataclass(frozen=True, slots=True)
class Selector:
    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Select:
    """`selected`: empty for `*`. `order`: (column, descending)."""

    table: TableName
    selected: tuple[Selector, ...]
    where: tuple[AnyRelation, ...] = ()
    distinct: bool = False
    json: bool = False
    group: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    partition_limit: Term | None = None
    limit: Term | None = None
    allow_filtering: bool = False


class DescribeKind(Enum):
    KEYSPACES = "keyspaces"
    TABLES = "tables"
    TYPES = "types"
    FUNCTIONS = "functions"
    AGGREGATES = "aggregates"
    SCHEMA = "schema"
    CLUSTER = "cluster"
    KEYSPACE = "keyspace"
    TABLE = "table"
    ELEMENT = "element"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Describe:
    """`name` of the kinds from KEYSPACE on; an ELEMENT is of a kind of which there are none; a NAME may be any."""

    kind: DescribeKind
    name: str | None = None
    keyspace: str | None = None


SchemaChange = CreateKeyspace | AlterKeyspace | DropKeyspace | CreateTable | AlterTable | DropTable | Truncate
Statement = Use | SchemaChange | Modification | Batch | Select | Describe
