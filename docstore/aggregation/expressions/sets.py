"""Set operators: arrays as sets, in value order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    argument_list,
    arguments_of,
    commutative,
    folded,
    is_nullish,
    nary,
    ordered,
    stepwise,
    unary,
)
from docstore.bson.build import array_value
from docstore.bson.walk import ARRAY, Value, each_value, values
from docstore.errors import CommandError
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.values import NULL_VALUE, boolean, is_true, type_name

Operands = list[Value | None]
Members = dict[bytes, Value]
KeyOf = Callable[[Value], bytes]


def _members(key_of: KeyOf, operand: Value) -> Members:
    """Return the distinct elements by key, the first of equal ones."""
    members: Members = {}
    for member in each_value(operand[1]):
        members.setdefault(key_of(member), member)
    return members


def _sorted(members: Members) -> Value:
    return array_value(members[key] for key in sorted(members))


def _combining(
    name: str,
    code: int,
    combine: Callable[[Members, Members], Members],
    is_commutative: Callable[[Ordering], bool] = lambda ordering: True,
) -> OperatorParser:
    """Return `$setUnion` or `$setIntersection` of any number of arrays; null if one is null or missing."""

    def calculate(key_of: KeyOf, operands: Iterator[Value | None]) -> Value:
        combination: Members | None = None
        for operand in operands:
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            if operand[0] != ARRAY:
                raise CommandError(
                    code, f"All operands of {name} must be arrays. One argument is of type: {type_name(operand)}"
                )
            members = _members(key_of, operand)
            combination = members if combination is None else combine(combination, members)
        return _sorted(combination or {})

    def make(ordering: Ordering) -> OperatorParser:
        function = partial(calculate, ordering.key)
        return commutative(function) if is_commutative(ordering) else stepwise(function)

    return ordered(make)


def _intersection(a: Members, b: Members) -> Members:
    """Return the members of both, taken from the smaller set."""
    if len(a) > len(b):
        a, b = b, a
    return {key: member for key, member in a.items() if key in b}


def _difference(key_of: KeyOf, operands: Operands) -> Value:
    a, b = operands
    if a is None or b is None or is_nullish(a) or is_nullish(b):
        return NULL_VALUE
    for operand, role, code in ((a, "First", 17048), (b, "Second", 17049)):
        if operand[0] != ARRAY:
            raise CommandError(
                code,
                f"both operands of $setDifference must be arrays. {role} argument is of type: {type_name(operand)}",
            )
    removed = _members(key_of, b)
    return array_value([member for key, member in _members(key_of, a).items() if key not in removed])


def _parse_equals(name: str, value: Value, parsing: Parsing) -> Expression:
    arguments = [parsing.expression(item) for item in argument_list(value)]
    if len(arguments) < 2:
        raise CommandError(17045, f"$setEquals needs at least two arguments had: {len(arguments)}")
    for argument in arguments:
        if argument.is_constant:
            _check_equated(5887502, argument.constant)
    functions = [argument.evaluate for argument in arguments]
    key_of = parsing.query_context.ordering.key

    def evaluate(scope: Scope) -> Value:
        sets = [set(_members(key_of, _check_equated(17044, function(scope)))) for function in functions]
        return boolean(all(members == sets[0] for members in sets))

    return folded(evaluate, arguments)


def _check_equated(code: int, operand: Value | None) -> Value:
    if operand is None or operand[0] != ARRAY:
        raise CommandError(
            code, f"All operands of $setEquals must be arrays. One argument is of type: {type_name(operand)}"
        )
    return operand


def _parse_is_subset(name: str, value: Value, parsing: Parsing) -> Expression:
    subset, superset = arguments = arguments_of(name, value, parsing, 2, 2)
    prepared = superset.is_constant and not subset.is_constant
    codes = (17310, 17311) if prepared else (17046, 17042)
    key_of = parsing.query_context.ordering.key

    def checked(which: int, operand: Value | None) -> Value:
        if operand is None or operand[0] != ARRAY:
            raise CommandError(
                codes[which],
                f"both operands of $setIsSubset must be arrays. Argument {which + 1} is of type: {type_name(operand)}",
            )
        return operand

    subset_of = subset.evaluate
    if prepared:
        superset_keys = _members(key_of, checked(1, superset.constant)).keys()
        return Expression(lambda scope: boolean(_members(key_of, checked(0, subset_of(scope))).keys() <= superset_keys))
    superset_of = superset.evaluate

    def evaluate(scope: Scope) -> Value:
        first, second = subset_of(scope), superset_of(scope)
        subset_array, superset_array = checked(0, first), checked(1, second)
        return boolean(_members(key_of, subset_array).keys() <= _members(key_of, superset_array).keys())

    return folded(evaluate, arguments)


def _quantifier(name: str, code: int, decide: Callable[[list[bool]], bool]) -> OperatorParser:
    def calculate(operand: Value | None) -> Value:
        if operand is None or operand[0] != ARRAY:
            raise CommandError(code, f"{name}'s argument must be an array, but is {type_name(operand)}")
        return boolean(decide([is_true(member) for member in values(operand[1])]))

    return unary(calculate)


OPERATORS: Table = {
    "$allElementsTrue": _quantifier("$allElementsTrue", 17040, all),
    "$anyElementTrue": _quantifier("$anyElementTrue", 17041, any),
    "$setDifference": ordered(lambda ordering: nary(partial(_difference, ordering.key), 2, 2)),
    "$setEquals": _parse_equals,
    "$setIntersection": _combining("$setIntersection", 17047, _intersection),
    "$setIsSubset": _parse_is_subset,
    "$setUnion": _combining(
        # Under a collation the first of equal strings is returned, so the order of the arguments matters.
        "$setUnion",
        17043,
        lambda a, b: {**b, **a},
        lambda ordering: ordering is BINARY,
    ),
}
