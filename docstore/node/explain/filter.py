"""Filter trees as documents, in the normal form of explain: `{x: {$eq: 3}}`."""

from __future__ import annotations

from typing import Any

from bson.regex import Regex

from docstore.bson import to_python
from docstore.query.filter.bits import bit_positions
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
    Op,
    Or,
    RegexMatch,
    Size,
    TextSearch,
    TypeIs,
    ValueTest,
)
from docstore.query.value.long_lists import paced


def filter_document(tree: Filter) -> dict[str, Any]:
    """Return a document that parses to the tree."""
    match tree:
        case And(children):
            if not children:
                return {}
            return {"$and": [filter_document(child) for child in paced(sorted(children, key=_rank))]}
        case Or(children):
            return {"$or": [filter_document(child) for child in paced(sorted(children, key=_rank))]}
        case Nor(children):
            return {"$nor": [filter_document(child) for child in paced(children)]}
        case Always(value):
            return {"$alwaysTrue" if value else "$alwaysFalse": 1}
        case DocumentTest(_, name, argument):
            return {name: to_python(argument)}
        case TextSearch():
            return {"$text": _search(tree)}
        case Not(child):
            return _negated(child)
        case _:
            path, condition = _condition(tree)
            return {path: condition}


def _search(text: TextSearch) -> dict[str, Any]:
    return {
        "$search": text.search,
        "$language": text.matcher.language or text.language or "",
        "$caseSensitive": text.exactness.case,
        "$diacriticSensitive": text.exactness.diacritics,
    }


_KINDS: tuple[type, ...] = (
    And, Or, ElemMatchObject, ElemMatchValue, Size, Comparison, RegexMatch, Mod, Exists, In, Not, Nor, TypeIs,
)  # fmt: skip
"""The reference's order of the members of a conjunction or disjunction."""
_MAX_SHOWN_MASK_BYTES = 8
"""A longer mask is shown as it came: each of its bits would be a number."""
_OPS = (Op.EQ, Op.LTE, Op.LT, Op.GT, Op.GTE)


def _rank(tree: Filter) -> tuple[int, int, str]:
    kind = _KINDS.index(type(tree)) if type(tree) in _KINDS else len(_KINDS)
    inner = tree.child if isinstance(tree, Not) else tree
    return kind, _OPS.index(tree.op) if isinstance(tree, Comparison) else 0, getattr(inner, "path", "")


def _negated(child: Filter) -> dict[str, Any]:
    if isinstance(child, And | Or | Nor | Always | Not):
        return {"$nor": [filter_document(child)]}
    path, condition = _condition(child)
    return {path: {"$not": condition}}


def _condition(tree: Filter) -> tuple[str, dict[str, Any]]:
    match tree:
        case Comparison(path, op, value):
            return path, {f"${op.value}": to_python(value)}
        case In(path, values, patterns):
            return path, {
                "$in": [*map(to_python, paced(values)), *(Regex(regex.pattern, regex.options) for regex in patterns)]
            }
        case RegexMatch(path, pattern, options):
            condition: dict[str, Any] = {"$regex": pattern}
            if options:
                condition["$options"] = options
            return path, condition
        case Exists(path):
            return path, {"$exists": True}
        case TypeIs(path, codes):
            return path, {"$type": sorted(codes)}
        case Bits(path, mask, sparse, every, ones):
            name = f"$bits{'All' if every else 'Any'}{'Set' if ones else 'Clear'}"
            return path, {name: mask if len(mask) > _MAX_SHOWN_MASK_BYTES else bit_positions(mask, sparse)}
        case Mod(path, divisor, remainder):
            return path, {"$mod": [divisor, remainder]}
        case ValueTest(path, _, name, argument):
            return path, {name: to_python(argument)}
        case Near(path, argument):
            return path, to_python(argument)
        case Size(path, length):
            return path, {"$size": length}
        case ElemMatchObject(path, inner) | ElemMatchValue(path, inner):
            return path, {"$elemMatch": _inner(inner)}
        case _:
            raise AssertionError(f"not a condition on a path: {tree!r}")


def _inner(tree: Filter) -> dict[str, Any]:
    """Return the conditions on an array element; those on the element itself have no path."""
    document = filter_document(tree)
    conditions: dict[str, Any] = {}
    for part in document.get("$and", [document]):
        for path, condition in part.items():
            if path == "" and isinstance(condition, dict):
                conditions.update(condition)
            else:
                conditions[path] = condition
    return conditions
