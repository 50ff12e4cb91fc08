"""Nearness in a filter, which only an index of geometry gives: where it may stand.

What asks for it is planned by itself (`docstore.query.near_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.errors import Code, CommandError
from docstore.query.tree import And, ElemMatchObject, ElemMatchValue, Filter, Near, Nor, Not, Or


def nearness(tree: Filter) -> Near | None:
    """What a filter asks for by nearness, in the conjunction at its top. BadValue for nearness in the wrong place."""
    found = list(_near(tree))
    if not found:
        return None
    top = tree.children if isinstance(tree, And) else (tree,)
    if any(node not in top for node in found):
        raise CommandError(Code.BadValue, "geo $near must be top-level expr")
    if len(found) > 1:
        raise CommandError(Code.BadValue, "Too many geoNear expressions")
    return found[0]


def _near(tree: Filter) -> Iterator[Near]:
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in children:
                yield from _near(child)
        case Not(child) | ElemMatchObject(_, child) | ElemMatchValue(_, child):
            yield from _near(child)
        case Near():
            yield tree
