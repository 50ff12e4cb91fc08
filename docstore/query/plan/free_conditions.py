"""Conditions whose values a query shape omits (`docstore.kernel.match.form`), and predicates made of them.

Invariant: the predicate of `Tests` for the values of a filter is that of the conditions themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from docstore.bson.walk import ARRAY, OBJECT, REGEX, Value, elements
from docstore.bson.walk import values as members
from docstore.kernel.match import predicate
from docstore.kernel.match.path_predicates import ElemMatch
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import is_operator_document
from docstore.query.filter.path_operators import parse_regex_operator
from docstore.query.filter.tree import (
    Comparison,
    ElemMatchObject,
    ElemMatchValue,
    Filter,
    In,
    Op,
    Or,
    RegexMatch,
    conjunction,
)
from docstore.query.plan.shapes import conjuncts, has_free_list, has_free_pattern, has_free_value
from docstore.query.value.collation import Collation
from docstore.query.value.values import regex_of, text_of

_IN = "$in"
_OR = "$or"
_AND = "$and"
_PLAIN_BEGINNING = re.compile(r"\^[A-Za-z0-9 _-]+")
_OPERATORS = {f"${op.value}": op for op in Op}


class FreeTest(NamedTuple):
    """A condition with the value at `position`: a comparison by `op`; with `options` a regular expression, whose value
    is a regex or its text; else an `$in`. Strings are compared under the collation.
    """

    path: str
    position: int
    op: Op | None = None
    options: str | None = None
    collation: Collation | None = None

    def condition(self, values: Sequence[Value]) -> Filter:
        """Return the condition for these values."""
        value = values[self.position]
        if self.op is not None:
            return Comparison(self.path, self.op, value, self.collation)
        if self.options is None:
            return In(self.path, members(value[1]), (), self.collation)
        return self.pattern(value)

    def pattern(self, value: Value) -> RegexMatch:
        """Return the regular expression for the value."""
        assert self.options is not None, "the test is one of a regular expression"
        if value[0] == REGEX:
            return RegexMatch(self.path, *regex_of(value))
        return RegexMatch(self.path, text_of(value), self.options)


@dataclass(frozen=True, slots=True)
class Tests:
    """Conditions that must all hold.

    `constant`: the conditions that all filters of the form share; `free`: conditions with values; `either`:
    disjunctions, as their branches; `of_elements`: each `$elemMatch`, as (path, whether of values, tests).
    """

    constant: Predicate | None
    free: tuple[FreeTest, ...]
    either: tuple[tuple[Tests, ...], ...]
    of_elements: tuple[tuple[str, bool, Tests], ...] = ()

    def predicate(self, values: Sequence[Value]) -> Predicate:
        """Return the predicate of a filter with these values. Errors: those of regular expressions."""
        parts = [compile_filter(test.condition(values)) for test in self.free]
        for path, on_values, tests in self.of_elements:
            parts.append(ElemMatch(path, tests.predicate(values), on_values))
        for branches in self.either:
            parts.append(predicate.Or([branch.predicate(values) for branch in branches]))
        if self.constant is not None:
            parts.append(self.constant)
        return parts[0] if len(parts) == 1 else predicate.And(parts)


def tests_of(conditions: Sequence[Filter], positions: dict[int, int]) -> Tests:
    """Return the tests for conditions whose values have these places."""
    constant: list[Filter] = []
    free: list[FreeTest] = []
    either: list[tuple[Tests, ...]] = []
    of_elements: list[tuple[str, bool, Tests]] = []
    for condition in conditions:
        if isinstance(condition, Or):
            either.append(tuple(tests_of(conjuncts(child), positions) for child in condition.children))
        elif isinstance(condition, ElemMatchObject | ElemMatchValue):
            inner = tests_of(conjuncts(condition.filter), positions)
            of_elements.append((condition.path, isinstance(condition, ElemMatchValue), inner))
        elif isinstance(condition, Comparison | In | RegexMatch) and id(condition) in positions:
            free.append(free_test(condition, positions))
        else:
            constant.append(condition)
    constant_predicate = compile_filter(conjunction(constant)) if constant else None
    return Tests(constant_predicate, tuple(free), tuple(either), tuple(of_elements))


def free_test(condition: Comparison | In | RegexMatch, positions: dict[int, int]) -> FreeTest:
    index = positions[id(condition)]
    match condition:
        case Comparison(path, op):
            return FreeTest(path, index, op, collation=condition.collation)
        case RegexMatch(path, _, options):
            return FreeTest(path, index, options=options)
        case In(path):
            return FreeTest(path, index, collation=condition.collation)


def places_of(raw: bytes, values: list[Value], tree: Filter) -> dict[int, int] | None:
    """Return the place of each condition's value, by the identity of the condition. None if the tree has a condition in
    another place than the one its value was taken from.
    """
    free = [leaf for leaf in _flat(tree) if _is_free(leaf)]
    pairs = compared(raw)
    if [leaf for leaf, _ in pairs] != list(map(_by_bytes, free)) or [value for _, value in pairs] != values:
        return None
    positions = {id(condition): position for position, condition in enumerate(free)}
    return positions if len(positions) == len(free) else None


def _by_bytes(condition: Filter) -> Filter:
    """Return the condition without its collation."""
    if isinstance(condition, Comparison | In) and condition.collation is not None:
        return replace(condition, collation=None)
    return condition


def _is_free(condition: Filter) -> bool:
    """True if query shapes omit the value of the condition."""
    if has_free_pattern(condition):
        if not condition.pattern.startswith("^") or condition.options not in ("", "s"):
            return True
        return condition.options == "" and _PLAIN_BEGINNING.fullmatch(condition.pattern) is not None
    return has_free_value(condition) or has_free_list(condition)


def _flat(tree: Filter) -> Iterator[Filter]:
    """Yield the conditions of the tree, of the branches of its disjunctions and of elements, in order."""
    for condition in conjuncts(tree):
        if isinstance(condition, Or):
            for child in condition.children:
                yield from _flat(child)
        elif isinstance(condition, ElemMatchObject | ElemMatchValue):
            yield from _flat(condition.filter)
        else:
            yield condition


def compared(raw: bytes) -> list[tuple[Filter, Value]]:
    """Return the conditions whose values are not part of the form, in their order, with these values."""
    pairs: list[tuple[Filter, Value]] = []
    for path, code, data in elements(raw):
        if path.startswith("$"):
            if path in (_OR, _AND) and code == ARRAY:
                for kind, branch in members(data):
                    pairs += compared(branch) if kind == OBJECT else ()
        elif code == OBJECT:
            pairs += _compare_operators(path, data) if is_operator_document(data) else ()
        elif code == REGEX:
            pairs.append((RegexMatch(path, *regex_of((code, data))), (code, data)))
        else:
            pairs.append((Comparison(path, Op.EQ, (code, data)), (code, data)))
    return [pair for pair in pairs if _is_free(pair[0])]


def _compare_operators(path: str, raw: bytes) -> Iterator[tuple[Filter, Value]]:
    """Yield as `compared` does, for a document of operators."""
    fields = elements(raw)
    for name, code, data in fields:
        value = (code, data)
        if name in _OPERATORS:
            yield Comparison(path, _OPERATORS[name], value), value
        elif name == "$regex":
            yield parse_regex_operator(path, fields), value
        elif name == _IN and code == ARRAY:
            yield In(path, tuple(members(data))), value
        elif name == "$all" and code == ARRAY:
            for member in members(data):
                yield Comparison(path, Op.EQ, member), member
        elif name == "$elemMatch" and code == OBJECT:
            on_values = any(inner.startswith("$") for inner, _, _ in elements(data)[:1])
            yield from _compare_operators("", data) if on_values else compared(data)
