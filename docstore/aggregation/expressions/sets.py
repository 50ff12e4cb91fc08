"""Set operators: arrays taken as sets, in the order of their values."""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.expressions.model import OperatorParser, Table, is_nullish, nary, unary
from docstore.bson.build import array_value
from docstore.bson.keys import encode_key
from docstore.bson.walk import ARRAY, Value, values
from docstore.errors import CommandError
from docstore.query.values import NULL_VALUE, boolean, is_true, type_name

Operands = list[Value | None]
Members = dict[bytes, Value]


def _members(operand: Value) -> Members:
    """The distinct elements by their encoded key, the first of equal ones."""
    found: Members = {}
    for member in values(operand[1]):
        found.setdefault(encode_key(member), member)
    return found


def _sorted(members: Members) -> Value:
    return array_value([members[key] for key in sorted(members)])


def _combining(name: str, code: int, combine: Callable[[Members, Members], Members]) -> OperatorParser:
    """`$setUnion` and `$setIntersection` of any number of arrays; null when one of them is null or missing."""

    def calculate(operands: Operands) -> Value:
        found: Members | None = None
        for operand in operands:
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            if operand[0] != ARRAY:
                raise CommandError(
                    code, f"All operands of {name} must be arrays. One argument is of type: {type_name(operand)}"
                )
            found = _members(operand) if found is None else combine(found, _members(operand))
        return _sorted(found or {})

    return nary(calculate)


def _difference(operands: Operands) -> Value:
    a, b = operands
    if a is None or b is None or is_nullish(a) or is_nullish(b):
        return NULL_VALUE
    for operand, role, code in ((a, "First", 17048), (b, "Second", 17049)):
        if operand[0] != ARRAY:
            raise CommandError(
                code,
                f"both operands of $setDifference must be arrays. {role} argument is of type: {type_name(operand)}",
            )
    removed = _members(b)
    return array_value([member for key, member in _members(a).items() if key not in removed])


def _equals(operands: Operands) -> Value:
    if len(operands) < 2:
        raise CommandError(17045, f"$setEquals needs at least two arguments had: {len(operands)}")
    sets: list[set[bytes]] = []
    for operand in operands:
        if operand is None or operand[0] != ARRAY:
            raise CommandError(
                5887502, f"All operands of $setEquals must be arrays. One argument is of type: {type_name(operand)}"
            )
        sets.append(set(_members(operand)))
    return boolean(all(found == sets[0] for found in sets))


def _is_subset(operands: Operands) -> Value:
    a, b = operands
    for operand, role, code in ((a, "First", 17046), (b, "Second", 17042)):
        if operand is None or operand[0] != ARRAY:
            raise CommandError(
                code, f"both operands of $setIsSubset must be arrays. {role} argument is of type: {type_name(operand)}"
            )
    assert a is not None
    assert b is not None
    return boolean(_members(a).keys() <= _members(b).keys())


def _quantifier(name: str, code: int, decide: Callable[[list[bool]], bool]) -> OperatorParser:
    def calculate(operand: Value | None) -> Value:
        if operand is None or operand[0] != ARRAY:
            raise CommandError(code, f"{name}'s argument must be an array, but is {type_name(operand)}")
        return boolean(decide([is_true(member) for member in values(operand[1])]))

    return unary(calculate)


OPERATORS: Table = {
    "$allElementsTrue": _quantifier("$allElementsTrue", 17040, all),
    "$anyElementTrue": _quantifier("$anyElementTrue", 17041, any),
    "$setDifference": nary(_difference, 2, 2),
    "$setEquals": nary(_equals),
    "$setIntersection": _combining(
        "$setIntersection", 17047, lambda a, b: {key: member for key, member in a.items() if key in b}
    ),
    "$setIsSubset": nary(_is_subset, 2, 2),
    "$setUnion": _combining("$setUnion", 17043, lambda a, b: {**b, **a}),
}
