"""Implication between filters, by which a partial index may serve a query.

The test is sound, but not complete: True is certain; False means that no implication was found.
"""

from __future__ import annotations

from docstore.bson.walk import ARRAY, MAX_KEY, MIN_KEY, NULL, UNDEFINED
from docstore.query.filter.tree import (
    And,
    Bits,
    Comparison,
    ElemMatchObject,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Mod,
    Or,
    RegexMatch,
    Size,
    TypeIs,
)
from docstore.query.plan.intervals import Ranges, intersection
from docstore.query.plan.value_ranges import value_ranges
from docstore.query.value.collation import Collation, holds_strings

_NO_PRESENCE = frozenset((NULL, UNDEFINED, MIN_KEY, MAX_KEY))


def implies(query: Filter, conclusion: Filter) -> bool:
    """True if every document that satisfies `query` is known to satisfy `conclusion`."""
    if query == conclusion:
        return True
    if isinstance(conclusion, And):
        return all(implies(query, child) for child in conclusion.children)
    if isinstance(query, Or):
        return bool(query.children) and all(implies(child, conclusion) for child in query.children)
    if isinstance(conclusion, Or) and any(implies(query, child) for child in conclusion.children):
        return True
    if isinstance(query, And):
        return any(implies(child, conclusion) for child in query.children)
    return _leaf_implies(query, conclusion)


def _leaf_implies(query: Filter, conclusion: Filter) -> bool:
    match conclusion:
        case Exists(path):
            return asks_for_presence(query, path)
        case Comparison(path) | In(path):
            if not isinstance(query, Comparison | In) or query.path != path:
                return False
            rules = query.collation or conclusion.collation
            inner, outer = _plain_ranges(query, rules), _plain_ranges(conclusion, rules)
            # An array element in the inner ranges is in the outer ones, too.
            return inner is not None and outer is not None and _is_subset(inner, outer)
        case _:
            return False


def asks_for_presence(query: Filter, path: str) -> bool:
    """True if every document that satisfies `query` is known to have the field."""
    match query:
        case And(children):
            return any(asks_for_presence(child, path) for child in children)
        case Exists(own):
            return own == path
        case Comparison(own, _, value):
            return own == path and value[0] not in _NO_PRESENCE
        case In(own, listed, _):
            return own == path and all(value[0] not in _NO_PRESENCE for value in listed)
        case RegexMatch() | TypeIs() | Mod() | Bits() | Size() | ElemMatchObject() | ElemMatchValue():
            return query.path == path
        case _:
            return False


def _plain_ranges(condition: Comparison | In, rules: Collation | None) -> Ranges | None:
    """Return the ranges, under a collation, of a condition that exact ranges of single values express; else None."""
    listed = (condition.value,) if isinstance(condition, Comparison) else condition.values
    if condition.collation != rules and any(map(holds_strings, listed)):
        return None
    if rules is not None:
        listed = tuple(map(rules.fold, listed))
        if isinstance(condition, Comparison):
            condition = Comparison(condition.path, condition.op, listed[0])
        else:
            condition = In(condition.path, listed, condition.patterns)
    if any(value[0] == ARRAY or value[0] in _NO_PRESENCE for value in listed):
        return None
    bounded = value_ranges(condition)
    return bounded[0] if bounded is not None and bounded[1] else None


def _is_subset(inner: Ranges, outer: Ranges) -> bool:
    return [(item.lo, item.hi) for item in intersection(inner, outer)] == [(item.lo, item.hi) for item in inner]
