"""Compiles filter trees to kernel predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from docstore.bson.allowance import spend
from docstore.bson.walk import REGEX, Value
from docstore.errors import Code, CommandError
from docstore.kernel.geometry.outlines import WithinAreas
from docstore.kernel.geometry.points import WithinCircle
from docstore.kernel.geometry.regions import WithinBox, WithinDisc, WithinOutline
from docstore.kernel.match import bit_predicates, path_predicates, predicate, text_predicates
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.regex import compile_regex, literal_of
from docstore.query.filter.tree import (
    Always,
    And,
    Bits,
    Comparison,
    DocumentTest,
    ElemMatchObject,
    ElemMatchValue,
    Exists,
    Filter,
    In,
    Mod,
    Near,
    Nor,
    Not,
    Or,
    RegexMatch,
    Size,
    TextSearch,
    TypeIs,
    ValueTest,
)
from docstore.query.geo.operators import WITHIN
from docstore.query.geo.plane import Box, Circle, Outline
from docstore.query.geo.sphere import OUTLOOK, Cap, Spherical
from docstore.query.limits import MAX_SEPARATE_PATTERNS
from docstore.query.value.collation import Collation
from docstore.query.value.long_lists import paced

_AT_ONCE = 256
_PER_SEARCH = 64
"""Units of work charged for searching a string for a pattern."""


def _in_order(children: Sequence[Filter]) -> Sequence[Filter]:
    """Return the children with expressions last, so that an expression's error occurs only if no other child
    decides.
    """
    last = [child for child in paced(children) if _is_expression(child)]
    return [*(child for child in paced(children) if not _is_expression(child)), *last] if last else children


def _is_expression(tree: Filter) -> bool:
    return isinstance(tree, DocumentTest) and tree.name == "$expr"


def compile_filter(tree: Filter) -> Predicate:
    """Return the predicate of a tree. Inside `$elemMatch` on values the paths are empty and the kernel ignores them."""
    match tree:
        case And(children):
            return predicate.And([compile_filter(child) for child in paced(_in_order(children))])
        case Or(children):
            return predicate.Or([compile_filter(child) for child in paced(_in_order(children))])
        case Nor(children):
            return predicate.Nor([compile_filter(child) for child in paced(_in_order(children))])
        case Not(child):
            return predicate.Not(compile_filter(child))
        case Always(value):
            return predicate.Always(value)
        case DocumentTest(test):
            return path_predicates.Call(test)
        case TextSearch():
            return path_predicates.Call(tree.matcher.finds)
        case ElemMatchObject(path, inner):
            return path_predicates.ElemMatch(path, compile_filter(inner))
        case ElemMatchValue(path, inner):
            return path_predicates.ElemMatch(path, compile_filter(inner), True)
        case _:
            return _compile_leaf(tree)


def _compile_leaf(tree: Filter) -> Predicate:
    match tree:
        case Comparison(path, op, value, collation):
            if collation is None:
                return path_predicates.Compare(path, op.value, value)
            return path_predicates.Folded(
                path_predicates.Compare(path, op.value, collation.fold(value)), collation.fold
            )
        case In(path, values, patterns, collation):
            alternatives: list[Predicate] = [_compile_in(path, values, collation)]
            if len(patterns) > MAX_SEPARATE_PATTERNS:
                alternatives += _compile_patterns(path, patterns)
            else:
                alternatives += [_compile_regex(pattern) for pattern in patterns]
            return alternatives[0] if len(alternatives) == 1 else predicate.Or(alternatives)
        case RegexMatch():
            return _compile_regex(tree)
        case Exists(path):
            return path_predicates.Exists(path, True)
        case TypeIs(path, codes):
            return path_predicates.Type(path, codes)
        case Bits(path, mask, sparse, every, ones):
            return bit_predicates.Bits(path, mask, sparse, every, ones)
        case Mod(path, divisor, remainder):
            return path_predicates.Mod(path, divisor, remainder)
        case Size(path, length):
            return path_predicates.Size(path, length)
        case ValueTest():
            return _compile_value_test(tree)
        case Near():
            return path_predicates.Call(partial(_refuse, tree))
        case _:
            raise AssertionError(f"no predicate for {tree!r}")


def _compile_value_test(tree: ValueTest) -> Predicate:
    """Return the kernel's predicate for a region that it supports, else one that calls the test."""
    path, test, is_within = tree.path, tree.test, tree.name in WITHIN
    match tree.region:
        case Spherical(cap=Cap(centre, radius)) if is_within:
            return WithinCircle(path, centre, radius, test)
        case Spherical() as region if (areas := region.areas()) is not None:
            # A point meets an area if it lies within it.
            return WithinAreas(path, OUTLOOK, areas, test)
        case Circle(centre, radius) if is_within:
            return WithinDisc(path, centre, radius, test)
        case Outline(corners) if is_within:
            return WithinOutline(path, corners, test)
        case Box(((a, b), (c, d))) if is_within:
            return WithinBox(path, (min(a, c), min(b, d)), (max(a, c), max(b, d)), test)
        case _:
            return path_predicates.ValueCall(path, test)


def _refuse(tree: Filter, document: bytes) -> bool:
    """Raise an error: no document can be tested alone."""
    raise CommandError(Code.NoQueryExecutionPlans, "unable to find index for $geoNear query")


def _compile_in(path: str, values: Sequence[Value], collation: Collation | None) -> Predicate:
    if collation is None:
        return path_predicates.In(path, values)
    return path_predicates.Folded(path_predicates.In(path, list(map(collation.fold, values))), collation.fold)


def _compile_regex(pattern: RegexMatch) -> Predicate:
    """Return the predicate of strings that match, and of stored regexes equal to the pattern."""
    same = _regex_value(pattern)[1]
    literal = literal_of(pattern.pattern, pattern.options)
    if literal is None:
        return text_predicates.Regex(pattern.path, compile_regex(pattern.pattern, pattern.options), same)
    # The literal prefilter leaves few strings to search.
    return text_predicates.Regex(pattern.path, partial(_search, pattern), same, *literal)


def _search(pattern: RegexMatch, text: str) -> bool:
    return bool(compile_regex(pattern.pattern, pattern.options)(text))


def _compile_patterns(path: str, patterns: Sequence[RegexMatch]) -> list[Predicate]:
    """Return predicates like `_compile_regex` of many patterns; one lookup of a value serves all of them."""
    searches = [compile_regex(pattern.pattern, pattern.options) for pattern in paced(patterns)]
    same = [_regex_value(pattern) for pattern in paced(patterns)]
    return [path_predicates.In(path, same), text_predicates.Regex(path, _any_of(searches))]


def _any_of(searches: Sequence[Callable[[str], object]]) -> Callable[[str], bool]:
    def search(text: str) -> bool:
        for at in range(0, len(searches), _AT_ONCE):
            part = searches[at : at + _AT_ONCE]
            spend(_PER_SEARCH * len(part))
            if any(matcher(text) for matcher in part):
                return True
        return False

    return search


def _regex_value(pattern: RegexMatch) -> Value:
    options = "".join(sorted(pattern.options))
    return REGEX, pattern.pattern.encode() + b"\0" + options.encode() + b"\0"
