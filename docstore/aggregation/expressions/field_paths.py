"""Field paths and variables: `"$a.b"`, `"$$name.a.b"`, `"$$ROOT"`.

A path maps over an array: it is evaluated on each embedded document, and the result is an array of the values found.
Unlike in queries, a number in a path is always a field name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.aggregation.expressions.model import Evaluate, Expression, Scope, constant
from docstore.bson.build import array_from
from docstore.bson.walk import ARRAY, OBJECT, Value, get_field, values
from docstore.errors import Code, CommandError
from docstore.kernel.group.sources import Variable, VariableSource
from docstore.query.context import QueryContext
from docstore.query.value.paths import check_field_path


def walk(value: Value | None, parts: Sequence[str]) -> Value | None:
    """Return the value at a path below a value, or None."""
    for depth, part in enumerate(parts):
        if value is None:
            return None
        if value[0] == ARRAY:
            remaining_parts = parts[depth:]
            members = [walk(member, remaining_parts) for member in values(value[1]) if member[0] == OBJECT]
            return ARRAY, array_from([member for member in members if member is not None])
        if value[0] != OBJECT:
            return None
        value = get_field(value[1], part)
    return value


def parse_path(text: str, bound: Mapping[str, Variable], query_context: QueryContext) -> Expression:
    """Parse a string that starts with `$`. `bound`: the variables bound by enclosing expressions."""
    if text.startswith("$$"):
        name, _, path = text[2:].partition(".")
        return _variable(name, check_field_path(path) if "." in text else [], bound, query_context)
    if text == "$":
        raise CommandError(16872, "'$' by itself is not a valid FieldPath")
    return _variable("CURRENT", check_field_path(text[1:]), bound, query_context)


def _variable(name: str, parts: list[str], bound: Mapping[str, Variable], query_context: QueryContext) -> Expression:
    if not name:
        raise CommandError(Code.FailedToParse, "empty variable names are not allowed")
    if name == "REMOVE":
        return constant(None)
    if name in bound:
        return Expression(_bound(name, parts), calculation=VariableSource(bound[name], ".".join(parts)))
    if name in query_context.late:
        return Expression(_late(query_context.late, name, parts))
    if name in query_context.variables:
        return constant(walk(query_context.variables[name], parts))
    if name in ("ROOT", "CURRENT"):
        if not parts:
            return Expression(lambda scope: (OBJECT, scope.root), of_document=True)
        return Expression(_of_document(parts), path=".".join(parts), of_document=True)
    if name == "SEARCH_META":
        return constant(None)
    if name in ("CLUSTER_TIME", "IS_MR", "JS_SCOPE", "NOW"):
        raise CommandError(51144, f"Builtin variable '$${name}' is not available")
    raise CommandError(17276, f"Use of undefined variable: {name}")


def _bound(name: str, parts: list[str]) -> Evaluate:
    if not parts:
        return lambda scope: scope.variables[name]
    return lambda scope: walk(scope.variables[name], parts)


def _late(variables: Mapping[str, Value | None], name: str, parts: list[str]) -> Evaluate:
    return lambda scope: walk(variables[name], parts)


def _of_document(parts: list[str]) -> Evaluate:
    if len(parts) == 1:
        (only,) = parts
        return lambda scope: get_field(scope.root, only)

    def evaluate(scope: Scope) -> Value | None:
        return walk((OBJECT, scope.root), parts)

    return evaluate
