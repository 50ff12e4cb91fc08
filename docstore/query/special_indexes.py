"""Conditions that only an index of a kind of its own can meet: `$near` and its kin, and `$text`.

There are no such indexes, so whatever asks for one is refused, as it is where the index has not been made: a search for
words when its filter is read (`docstore.query.text`), nearness when a plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.errors import Code, CommandError
from docstore.query.tree import And, ElemMatchObject, ElemMatchValue, Filter, Near, Nor, Not, Or

NEED_AN_INDEX = frozenset(("$geoNear", "$near", "$nearSphere", "$text"))
"""The operators."""


def check_indexes(tree: Filter, *, exists: bool = True, natural: bool = False) -> None:
    """Refuse a filter that asks for nearness.

    `exists` says whether there is a collection, `natural` that it is to be read in its own order. Errors: BadValue for
    nearness in the wrong place, NoQueryExecutionPlans.
    """
    found = list(_near(tree))
    if not found:
        return
    top = tree.children if isinstance(tree, And) else (tree,)
    if any(node not in top for node in found):
        raise CommandError(Code.BadValue, "geo $near must be top-level expr")
    if len(found) > 1:
        raise CommandError(Code.BadValue, "Too many geoNear expressions")
    if natural:
        raise CommandError(Code.BadValue, "geoNear expression not allowed with $natural hint")
    if exists:
        raise CommandError(Code.NoQueryExecutionPlans, "unable to find index for $geoNear query")


def _near(tree: Filter) -> Iterator[Near]:
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in children:
                yield from _near(child)
        case Not(child) | ElemMatchObject(_, child) | ElemMatchValue(_, child):
            yield from _near(child)
        case Near():
            yield tree
