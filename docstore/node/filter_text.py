"""Filter trees as documents again, in the normal form that explain shows: `{x: {$eq: 3}}`."""

from __future__ import annotations

from typing import Any

from bson.regex import Regex

from docstore.bson import to_python
from docstore.query.tree import (
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
    Nor,
    Not,
    Or,
    RegexMatch,
    Size,
    TypeIs,
)


def filter_document(tree: Filter) -> dict[str, Any]:
    """The document that parses to the tree."""
    match tree:
        case And(children):
            if not children:
                return {}
            return {"$and": [filter_document(child) for child in children]}
        case Or(children):
            return {"$or": [filter_document(child) for child in children]}
        case Nor(children):
            return {"$nor": [filter_document(child) for child in children]}
        case Always(value):
            return {"$alwaysTrue" if value else "$alwaysFalse": 1}
        case DocumentTest(_, name, argument):
            return {name: to_python(argument)}
        case Not(child):
            return _negated(child)
        case _:
            path, condition = _condition(tree)
            return {path: condition}


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
            return path, {"$in": [*map(to_python, values), *(Regex(each.pattern, each.options) for each in patterns)]}
        case RegexMatch(path, pattern, options):
            condition: dict[str, Any] = {"$regex": pattern}
            if options:
                condition["$options"] = options
            return path, condition
        case Exists(path):
            return path, {"$exists": True}
        case TypeIs(path, codes):
            return path, {"$type": sorted(codes)}
        case Bits(path, positions, every, ones):
            name = f"$bits{'All' if every else 'Any'}{'Set' if ones else 'Clear'}"
            return path, {name: sorted(positions)}
        case Mod(path, divisor, remainder):
            return path, {"$mod": [divisor, remainder]}
        case Size(path, length):
            return path, {"$size": length}
        case ElemMatchObject(path, inner) | ElemMatchValue(path, inner):
            return path, {"$elemMatch": _inner(inner)}
        case _:
            raise AssertionError(f"not a condition on a path: {tree!r}")


def _inner(tree: Filter) -> dict[str, Any]:
    """The conditions on an element; those on the element itself stand without a path."""
    shown = filter_document(tree)
    found: dict[str, Any] = {}
    for part in shown.get("$and", [shown]):
        for path, condition in part.items():
            if path == "" and isinstance(condition, dict):
                found.update(condition)
            else:
                found[path] = condition
    return found
