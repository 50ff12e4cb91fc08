"""The plan of a text search: the entries of the text index for each of its terms.

The filter must fix all fields before the text to one value. A search that needs more than one of its terms tests the
documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docstore.errors import Code, CommandError
from docstore.query.filter.tree import And, Filter, TextSearch, conjunction
from docstore.query.find import Hint
from docstore.query.plan.access import Eof, Plan, index_scan
from docstore.query.plan.bounds import FieldBounds, equalities, field_bounds
from docstore.query.plan.candidates import residual
from docstore.query.plan.index_bounds import IndexInfo, covers
from docstore.query.plan.intervals import points_of
from docstore.query.sort import Sort
from docstore.query.text.search import Search


def text_plan(tree: Filter, text: TextSearch, indexes: Sequence[IndexInfo], sort: Sort, hint: Hint | None) -> Plan:
    """Return the plan of a filter with `text` in its top conjunction, and tell `text` the collection's one text index.
    Errors: BadValue beside a hint or the natural order, NoQueryExecutionPlans.
    """
    if hint is not None:
        raise CommandError(Code.BadValue, "text and hint not allowed in same query")
    if sort.natural:
        raise CommandError(Code.BadValue, "text expression not allowed with $natural sort order")
    index = next(index for index in indexes if index.text is not None)
    assert index.text is not None
    search = text.matcher.settle(text.search, text.language, text.exactness, index.text)
    bounds = _bounds(tree, index, search)
    if bounds is None or not covers(tree, index).bounded:
        raise CommandError(
            Code.NoQueryExecutionPlans,
            "failed to use text index to satisfy $text query (if text index is compound, are equality predicates given "
            "for all prefix fields?)",
        )
    if not search.looked_up:
        return Plan(Eof(), None, True)
    other_conjuncts: list[Filter] = (
        [child for child in tree.children if child is not text] if isinstance(tree, And) else []
    )
    if not search.is_plain:
        other_conjuncts.append(text)
    residual_filter = residual(conjunction(other_conjuncts), bounds, None) if other_conjuncts else None
    return Plan(replace(index_scan(index, bounds, 1), text=text), residual_filter, not sort)


def _bounds(tree: Filter, index: IndexInfo, search: Search) -> list[FieldBounds] | None:
    """Return the bounds of the fields before the text, and the terms; None if one of the fields is not fixed."""
    bounds: list[FieldBounds] = []
    fixed = equalities(tree)
    for path, direction in index.fields:
        if not direction:
            return [*bounds, FieldBounds(path, 1, points_of(search.keys()))]
        if path not in fixed:
            return None
        bounds += field_bounds(tree, [(path, direction)])
    raise AssertionError("a text index has a field for them")
