"""`$cond`, `$ifNull`, `$switch`, `$literal`, `$let`."""

from __future__ import annotations

from docstore.aggregation.expressions.calculations import binding
from docstore.aggregation.expressions.model import (
    Expression,
    Named,
    Parsing,
    Scope,
    Table,
    argument_list,
    arguments_of,
    check_variable_name,
    constant,
    folded,
    is_nullish,
)
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.errors import CommandError
from docstore.kernel.compute.bindings import Bound
from docstore.query.value.values import is_true, type_name

_COND = Named(17080, 17083, {"if": 17080, "then": 17081, "else": 17082})
_LET = Named(16874, 16875, {"vars": 16876, "in": 16877})


def _parse_literal(name: str, value: Value, parsing: Parsing) -> Expression:
    return constant(value)


def _parse_cond(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] == OBJECT:
        named = _COND.parameters(name, value)
        arguments = [parsing.expression(named[part]) for part in ("if", "then", "else")]
    else:
        arguments = arguments_of(name, value, parsing, 3, 3)
    test, then, otherwise = [argument.evaluate for argument in arguments]
    return folded(lambda scope: then(scope) if is_true(test(scope)) else otherwise(scope), arguments)


def _parse_if_null(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = [parsing.expression(item) for item in argument_list(value)]
    if len(arguments) < 2:
        raise CommandError(1257300, f"$ifNull needs at least two arguments, had: {len(arguments)}")
    *candidates, last = [argument.evaluate for argument in arguments]

    def evaluate(scope: Scope) -> Value | None:
        for candidate in candidates:
            operand = candidate(scope)
            if not is_nullish(operand):
                return operand
        return last(scope)

    return folded(evaluate, arguments)


def _parse_switch(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] != OBJECT:
        raise CommandError(40060, f"$switch requires an object as an argument, found: {type_name(value)}")
    branches: list[tuple[Expression, Expression]] = []
    default: Expression | None = None
    for parameter, code, data in elements(value[1]):
        if parameter == "default":
            default = parsing.expression((code, data))
        elif parameter == "branches":
            if code != ARRAY:
                raise CommandError(40061, f"$switch expected an array for 'branches', found: {type_name((code, data))}")
            branches = [_parse_branch(branch, parsing) for branch in values(data)]
        else:
            raise CommandError(40067, f"$switch found an unknown argument: {parameter}")
    if not branches:
        raise CommandError(40068, "$switch requires at least one branch")
    if default is None and all(case.is_constant and not is_true(case.constant) for case, _ in branches):
        raise CommandError(
            40069, "Cannot execute a switch statement where all the cases evaluate to false without a default"
        )
    pairs = [(case.evaluate, then.evaluate) for case, then in branches]
    otherwise = None if default is None else default.evaluate

    def evaluate(scope: Scope) -> Value | None:
        for case, then in pairs:
            if is_true(case(scope)):
                return then(scope)
        if otherwise is None:
            raise CommandError(
                40066, "$switch could not find a matching branch for an input, and no default was specified."
            )
        return otherwise(scope)

    flat = [part for branch in branches for part in branch]
    return folded(evaluate, flat if default is None else [*flat, default])


def _parse_branch(branch: Value, parsing: Parsing) -> tuple[Expression, Expression]:
    if branch[0] != OBJECT:
        raise CommandError(40062, f"$switch expected each branch to be an object, found: {type_name(branch)}")
    parts: dict[str, Expression] = {}
    for parameter, code, data in elements(branch[1]):
        if parameter not in ("case", "then"):
            raise CommandError(40063, f"$switch found an unknown argument to a branch: {parameter}")
        parts[parameter] = parsing.expression((code, data))
    if "case" not in parts:
        raise CommandError(40064, "$switch requires each branch have a 'case' expression")
    if "then" not in parts:
        raise CommandError(40065, "$switch requires each branch have a 'then' expression.")
    return parts["case"], parts["then"]


def _parse_let(name: str, value: Value, parsing: Parsing) -> Expression:
    named = _LET.parameters(name, value)
    if named["vars"][0] != OBJECT:
        raise CommandError(10065, "invalid parameter: expected an object (vars)")
    bound: dict[str, Expression] = {}
    for variable, code, data in elements(named["vars"][1]):
        if variable != "CURRENT":
            check_variable_name(variable)
        bound[variable] = parsing.expression((code, data))
    body_parser = parsing.with_variables(*bound)
    body = body_parser.expression(named["in"])
    inner = body.evaluate
    functions = {variable: expression.evaluate for variable, expression in bound.items()}

    def evaluate(scope: Scope) -> Value | None:
        return inner(scope.bind(**{variable: function(scope) for variable, function in functions.items()}))

    variables = [body_parser.variable(name) for name in bound]
    return binding(Bound, parsing.scoped(Expression(evaluate)), variables, [*bound.values(), body])


OPERATORS: Table = {
    "$cond": _parse_cond,
    "$const": _parse_literal,
    "$ifNull": _parse_if_null,
    "$let": _parse_let,
    "$literal": _parse_literal,
    "$switch": _parse_switch,
}
