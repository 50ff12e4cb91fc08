"""From the grammar's rules to statements: one function for each rule, called with what the rule's parts became.

`RULES` holds them by the names of `cql.lark`; a rule that is missing there is a mistake that a test finds. A part that
the text leaves out is None.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lark import Token

from docstore.cql import statements as tree
from docstore.cql.errors import syntax
from docstore.cql.statements import Kind, Operator

_RESERVED = """
    add allow alter and apply asc authorize batch begin by columnfamily create default delete desc describe drop
    entries execute from full grant if in index infinity insert into is keyspace limit materialized mbean mbeans modify
    nan norecursive not null of on or order primary rename replace revoke schema select set table to token truncate
    unlogged unset update use using view where with
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that are names only in quotes."""

RULES = SimpleNamespace()
Rule = Callable[..., Any]


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function for rules."""

    def register(function: Rule) -> Rule:
        for name in names:
            setattr(RULES, name, lambda parts: function(*parts))
        return function

    return register


@rule("start", "limit", "partition_limit")
def _one(part: Any) -> Any:
    return part


@rule(
    "where",
    "order",
    "group",
    "targets",
    "names",
    "properties",
    "selectors",
    "property_map",
    "insert_values",
    "assignments",
)
def _all(*parts: Any) -> tuple[Any, ...]:
    return tuple(part for part in parts if part is not None)


@rule("property", "property_pair", "pair", "renaming")
def _pair(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


rule("if_not_exists", "if_exists")(lambda mark: mark is not None)
rule("primary_mark")(lambda: True)


# Names and terms


@rule("name")
def _name(token: Token) -> str:
    text = str(token)
    if token.type == "QUOTED":
        return text[1:-1].replace('""', '"')
    folded = text.lower()
    if folded in RESERVED:
        raise syntax(token.line or 1, (token.column or 1) - 1, f"no viable alternative at input '{text}'")
    return folded


@rule("table")
def _table(first: str, second: str | None) -> tree.TableName:
    return tree.TableName(None, first) if second is None else tree.TableName(first, second)


@rule("property_text")
def _text(token: Token) -> str:
    text = str(token)
    if token.type != "STRING":
        return text
    return text[2:-2] if text.startswith("$$") else text[1:-1].replace("''", "'")


rule("string")(lambda token: tree.Constant(Kind.STRING, _text(token)))


def _constant(kind: Kind) -> Rule:
    return lambda token: tree.Constant(kind, str(token))


for _kind in Kind:
    if _kind is not Kind.STRING:
        rule(_kind.value.lower())(_constant(_kind))

rule("null")(lambda token: tree.Null())
rule("anonymous")(lambda token: tree.Marker(token.start_pos))
rule("named")(lambda token, name: tree.Marker(token.start_pos, name))
rule("function")(lambda token=None: "token" if token is None else str(token).lower())
rule("call", "call_expression")(lambda function, *arguments: tree.Call(function, _all(*arguments)))
rule("list")(lambda *items: tree.ListTerm(_all(*items)))
rule("set")(lambda *items: tree.SetTerm(_all(*items)))
rule("map")(lambda *pairs: tree.MapTerm(pairs))
rule("tuple", "in_list")(lambda *items: tree.TupleTerm(_all(*items)))
rule("column")(tree.ColumnName)
rule("star")(tree.Star)


# Keyspaces and tables

rule("use")(tree.Use)
rule("create_keyspace")(lambda if_not_exists, name, given: tree.CreateKeyspace(name, if_not_exists, given or ()))
rule("alter_keyspace")(lambda if_exists, name, given: tree.AlterKeyspace(name, if_exists, given))
rule("drop_keyspace")(lambda if_exists, name: tree.DropKeyspace(name, if_exists))
rule("type")(lambda name, *parameters: tree.TypeName(name, _all(*parameters)))
rule("set_type")(lambda element: tree.TypeName("set", (element,)))
rule("custom_type")(lambda token: tree.TypeName(f"'{_text(token)}'"))
rule("ordering")(lambda name, direction: (name, direction is not None and direction.type == "DESC"))
rule("clustering_order")(lambda *orderings: tree.TableOptions(order=orderings))
rule("compact")(lambda: tree.TableOptions(compact=True))
rule("primary_key")(lambda partition, *clustering: tree.PrimaryKey(_names(partition), clustering))
rule("drop_table")(lambda if_exists, table: tree.DropTable(table, if_exists))
rule("truncate")(tree.Truncate)
rule("add_columns")(lambda *columns: tree.AddColumns(columns))
rule("drop_columns")(lambda *names: tree.DropColumns(names))
rule("rename_columns")(lambda *names: tree.RenameColumns(names))
rule("alter_type")(tree.AlterColumnType)
rule("alter_table")(lambda if_exists, table, change: tree.AlterTable(table, if_exists, change))


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@rule("column_definition")
def _column_definition(
    name: str, type_name: tree.TypeName, static: Token | None, primary: bool | None
) -> tree.ColumnDefinition:
    return tree.ColumnDefinition(name, type_name, static is not None, primary is not None)


@rule("table_options")
def _table_options(*parts: Any) -> tree.TableOptions:
    """Options in any order; what stands last counts."""
    options = tree.TableOptions()
    for part in parts:
        if isinstance(part, tree.TableOptions):
            options = tree.TableOptions(
                options.properties, part.order or options.order, part.compact or options.compact
            )
        else:
            options = tree.TableOptions((*options.properties, part), options.order, options.compact)
    return options


@rule("create_table")
def _create_table(if_not_exists: bool, table: tree.TableName, *parts: Any) -> tree.CreateTable:
    *definitions, options = parts
    columns = tuple(part for part in definitions if isinstance(part, tree.ColumnDefinition))
    keys = tuple(part for part in definitions if isinstance(part, tree.PrimaryKey))
    return tree.CreateTable(table, if_not_exists, columns, keys, options or tree.TableOptions())


# Writes


@rule("insert")
def _insert(table: tree.TableName, columns: Any, values: Any, if_not_exists: bool, using: Any) -> tree.Insert:
    return tree.Insert(table, columns, values, if_not_exists, using or tree.Using())


rule("conditions")(lambda *parts: tuple(part for part in parts if not isinstance(part, Token)))
rule("using_timestamp")(lambda value: tree.Using(timestamp=value))
rule("using_ttl")(lambda value: tree.Using(ttl=value))
rule("assign")(tree.Assignment)
rule("assign_element")(lambda column, element, value: tree.Assignment(column, value, element=element))
rule("target")(tree.Target)


@rule("using")
def _using(*parts: tree.Using) -> tree.Using:
    using = tree.Using()
    for part in parts:
        using = tree.Using(part.timestamp or using.timestamp, part.ttl or using.ttl)
    return using


@rule("assign_sum")
def _assign_sum(column: str, other: str, sign: Token, value: tree.Term) -> tree.Assignment:
    _check_same(column, other, sign)
    return tree.Assignment(column, value, str(sign))


@rule("assign_prepend")
def _assign_prepend(column: str, value: tree.Term, sign: Token, other: str) -> tree.Assignment:
    _check_same(column, other, sign)
    return tree.Assignment(column, value, "prepend")


def _check_same(column: str, other: str, at: Token) -> None:
    if column != other:
        raise syntax(
            at.line or 1,
            (at.column or 1) - 1,
            "Only expressions of the form X = X +<value> or X = <value> + X are supported.",
        )


@rule("update")
def _update(table: tree.TableName, using: Any, assignments: Any, where: Any, conditions: Any) -> tree.Update:
    return tree.Update(table, using or tree.Using(), assignments, where, conditions)


@rule("delete")
def _delete(targets: Any, table: tree.TableName, using: Any, where: Any, conditions: Any) -> tree.Delete:
    return tree.Delete(table, targets or (), using or tree.Using(), where, conditions)


@rule("batch")
def _batch(kind: Token | None, using: Any, *statements: tree.Modification) -> tree.Batch:
    named = tree.BatchKind.LOGGED if kind is None else tree.BatchKind(str(kind).upper())
    return tree.Batch(named, using or tree.Using(), statements)


# Reads

rule("selector")(tree.Selected)


@rule("comparison")
def _comparison(column: str, operator: Token, value: tree.Term) -> tree.Relation:
    return tree.Relation(column, Operator(str(operator)), value)


rule("among")(lambda column, value: tree.Relation(column, Operator.IN, value))
rule("contains")(lambda column, value: tree.Relation(column, Operator.CONTAINS, value))
rule("contains_key")(lambda column, value: tree.Relation(column, Operator.CONTAINS_KEY, value))
rule("like")(lambda column, value: tree.Relation(column, Operator.LIKE, value))
rule("not_null")(lambda column, null: tree.Relation(column, Operator.IS_NOT_NULL, tree.Null()))
rule("tuple_among")(lambda columns, value: tree.TupleRelation(columns, Operator.IN, value))


@rule("token_comparison")
def _token_comparison(columns: tuple[str, ...], operator: Token, value: tree.Term) -> tree.TokenRelation:
    return tree.TokenRelation(columns, Operator(str(operator)), value)


@rule("tuple_comparison")
def _tuple_comparison(columns: tuple[str, ...], operator: Token, value: tree.Term) -> tree.TupleRelation:
    return tree.TupleRelation(columns, Operator(str(operator)), value)


@rule("select")
def _select(
    json: Any, distinct: Any, selected: Any, table: tree.TableName, where: Any, group: Any, order: Any,
    partition_limit: Any, limit: Any, allow_filtering: Any,
) -> tree.Select:  # fmt: skip
    return tree.Select(
        table,
        selected,
        where or (),
        distinct is not None,
        json is not None,
        group or (),
        order or (),
        partition_limit,
        limit,
        allow_filtering is not None,
    )
