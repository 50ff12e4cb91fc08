"""The array element that a filter matched: the meaning of `$` in an update's path or in a projection.

It is the first element, of the first array on a condition's path, that satisfies the condition alone. Of several
conditions the last one counts: in the order of `_RANKS` and then of paths for an update, as written for a projection.
Negations and disjunctions match no element, except a disjunction of equalities of one path, which is an `$in`. All as
in MongoDB.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, get_field, values
from docstore.kernel.match.predicate import Predicate
from docstore.query.filter.compile import compile_filter
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
    Op,
    Or,
    RegexMatch,
    TypeIs,
)
from docstore.query.value.collation import Collation

_Condition = Bits | Comparison | In | RegexMatch | Exists | Mod | TypeIs | ElemMatchObject | ElemMatchValue

_COMPARISONS = {Op.EQ: 3, Op.LTE: 4, Op.LT: 5, Op.GT: 6, Op.GTE: 7}
_RANKS = {ElemMatchObject: 1, ElemMatchValue: 2, RegexMatch: 8, Mod: 9, Exists: 10, In: 11, TypeIs: 18}


class Positions:
    """The positions that one filter matches, in any number of documents."""

    def __init__(self, tree: Filter, *, as_written: bool = False) -> None:
        conditions = list(_conditions(tree))
        if not as_written:
            conditions.sort(key=lambda condition: (_rank(condition), condition.path))
        conditions.reverse()
        self._conditions = conditions
        self._compiled: list[tuple[list[str], Predicate]] = []

    @property
    def paths(self) -> list[str]:
        """Return the paths of the conditions that may match an element: an `_id` is never an array."""
        return [condition.path for condition in self._conditions if condition.path != "_id"]

    def of(self, raw: bytes) -> str | None:
        """Return the matched position in a document, in the form of a path's part; None if the filter matches none."""
        for index, condition in enumerate(self._conditions):
            if index == len(self._compiled):
                # Usually the first condition decides.
                self._compiled.append((condition.path.split("."), compile_filter(condition)))
            position = _position(*self._compiled[index], raw)
            if position is not None:
                return position
        return None


def _conditions(tree: Filter) -> Iterator[_Condition]:
    match tree:
        case And(children):
            for child in children:
                yield from _conditions(child)
        case Or(children):
            merged = _merged(children)
            if merged is not None:
                yield merged
        case In():
            yield _single(tree) or tree
        case Bits() | Comparison() | RegexMatch() | Exists() | Mod() | TypeIs() | ElemMatchObject() | ElemMatchValue():
            yield tree


def _single(tree: Filter) -> In | Comparison | RegexMatch | None:
    """Return an equality or a pattern; an `$in` of one value becomes its condition."""
    match tree:
        case In(path, (only,), (), collation):
            return Comparison(path, Op.EQ, only, collation)
        case In(_, (), (pattern,)):
            return pattern
        case In() | RegexMatch() | Comparison(_, Op.EQ):
            return tree
        case _:
            return None


def _merged(children: tuple[Filter, ...]) -> In | None:
    """Return a disjunction of equalities of one path as an `$in`."""
    members: list[Value] = []
    patterns: list[RegexMatch] = []
    paths: set[str] = set()
    rules: Collation | None = None
    for child in children:
        match _single(child):
            case Comparison(path, _, value, collation):
                members.append(value)
                rules = collation or rules
            case RegexMatch(path) as pattern:
                patterns.append(pattern)
            case _:
                return None
        paths.add(path)
    return In(paths.pop(), tuple(members), tuple(patterns), rules) if len(paths) == 1 else None


def _rank(condition: _Condition) -> int:
    match condition:
        case Comparison():
            return _COMPARISONS[condition.op]
        case Bits():
            return 12 + (not condition.ones) + 2 * (not condition.every)
        case _:
            return _RANKS[type(condition)]


def _position(parts: list[str], predicate: Predicate, raw: bytes) -> str | None:
    for length, part in enumerate(parts, 1):
        value = get_field(raw, part)
        if value is None or value[0] not in (ARRAY, OBJECT):
            return None
        if value[0] == ARRAY and not (length < len(parts) and parts[length].isdigit()):
            for position, element in enumerate(values(value[1])):
                if predicate.matches(_nested(parts[:length], (ARRAY, array_from([element])))):
                    return str(position)
            return None
        raw = value[1]
    return None


def _nested(path: list[str], value: Value) -> bytes:
    """Return a document with only the value at the path."""
    code, data = value
    for name in reversed(path):
        code, data = OBJECT, document_from([(name, code, data)])
    return data
