"""Near conditions and text searches, which need an index of their own kind: the test of their places in a filter.

They have planners of their own (`docstore.query.plan.special.near`, `docstore.query.plan.special.text`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docstore.errors import Code, CommandError
from docstore.query.filter.tree import And, ElemMatchObject, ElemMatchValue, Filter, Near, Nor, Not, Or, TextSearch
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.value.long_lists import paced


def special_condition(tree: Filter, indexes: Sequence[IndexInfo] | None = None) -> Near | TextSearch | None:
    """Return the near condition or text search in the top conjunction of a filter. `indexes`: those of the collection.

    Errors: BadValue for one in the wrong place or one too many, NoQueryExecutionPlans for `$text` in a disjunction,
    IndexNotFound for `$text` without a text index.
    """
    nodes = list(_special(tree))
    if not nodes:
        return None
    searches_text = any(isinstance(node, TextSearch) for node in nodes)
    if searches_text and indexes is not None and all(index.text is None for index in indexes):
        raise CommandError(Code.IndexNotFound, "text index required for $text query")
    _check_places(nodes, tree.children if isinstance(tree, And) else (tree,))
    return nodes[0]


def _check_places(conditions: Sequence[Near | TextSearch], top: Sequence[Filter]) -> None:
    """Raise an error for more than one of the conditions, and for one outside the top conjunction."""
    misplaced = [node for node in conditions if node not in top]
    if any(isinstance(node, Near) for node in misplaced):
        raise CommandError(Code.BadValue, "geo $near must be top-level expr")
    if any(_negates(child) for child in top):
        raise CommandError(Code.BadValue, "text expression not allowed in nor")
    if len({type(node) for node in conditions}) > 1:
        raise CommandError(Code.BadValue, "text and geoNear not allowed in same query")
    if len(conditions) > 1:
        raise CommandError(
            Code.BadValue, f"Too many {'geoNear' if isinstance(conditions[0], Near) else 'text'} expressions"
        )
    if misplaced:
        raise CommandError(Code.NoQueryExecutionPlans, "Failed to produce a solution for TEXT under OR")


def nearness(tree: Filter) -> Near | None:
    """Return the near condition of a filter. Errors: as in `special_condition`."""
    condition = special_condition(tree)
    return condition if isinstance(condition, Near) else None


def has_text_search(tree: Filter) -> bool:
    """True if there is a `$text` anywhere in a filter."""
    return any(isinstance(node, TextSearch) for node in _special(tree))


def _special(tree: Filter) -> Iterator[Near | TextSearch]:
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in paced(children):
                yield from _special(child)
        case Not(child) | ElemMatchObject(_, child) | ElemMatchValue(_, child):
            yield from _special(child)
        case Near() | TextSearch():
            yield tree


def _negates(tree: Filter) -> bool:
    """True if a text search is inside a negation."""
    match tree:
        case And(children) | Or(children):
            return any(map(_negates, children))
        case Nor() | Not():
            return any(isinstance(node, TextSearch) for node in _special(tree))
        case _:
            return False
