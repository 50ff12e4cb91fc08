"""Decides which partial indexes a filter's values admit. Besides ranges, nothing else in a plan depends on the values.

Invariant: filters of a form with equal outcomes have equal outcomes as shapes (`docstore.query.plan.shapes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from docstore.bson.walk import Value
from docstore.query.filter.implication import implies
from docstore.query.filter.tree import And, Comparison, Filter, In, Or, RegexMatch, conjunction, named_paths
from docstore.query.plan.bounds import first_name
from docstore.query.plan.free_conditions import FreeTest, free_test, places_of
from docstore.query.plan.index_bounds import IndexInfo
from docstore.query.plan.shapes import conjuncts


@dataclass(frozen=True, slots=True)
class _Conjunction:
    """Conditions that must all hold: constants that all filters of the form share, and conditions with values."""

    constant: tuple[Filter, ...]
    free: tuple[FreeTest, ...]

    def conditions(self, values: Sequence[Value]) -> Filter:
        return conjunction([*self.constant, *[test.condition(values) for test in self.free]])


@dataclass(frozen=True, slots=True)
class Decision:
    """Decides which conditions `leaves`, from the filters of partial indexes, a filter of the form implies.

    `parts` are its conditions on their fields: its own first, then those of each branch of its disjunctions.
    """

    parts: tuple[_Conjunction, ...]
    leaves: tuple[Filter, ...]

    def outcome(self, values: Sequence[Value]) -> tuple[bool, ...]:
        """Return, for each part of the filter with these values, whether it implies each of the conditions."""
        filters = [conditions.conditions(values) for conditions in self.parts]
        return tuple([implies(conditions, leaf) for conditions in filters for leaf in self.leaves])


def decision_of(raw: bytes, values: list[Value], tree: Filter, indexes: Sequence[IndexInfo]) -> Decision | None:
    """Return the decision for filters of the form of `raw`, whose tree is `tree`; None if values decide nothing."""
    leaves = [leaf for index in indexes if index.partial is not None for leaf in _leaves(index.partial)]
    indexed_names = {first_name(path) for node in leaves for path in named_paths(node)}
    positions = places_of(raw, values, tree)
    if not indexed_names or positions is None:
        return None
    branches = [child for node in conjuncts(tree) if isinstance(node, Or) for child in node.children]
    parts = [_conjunction_of(node, indexed_names, positions) for node in (tree, *branches)]
    return Decision(tuple(parts), tuple(leaves)) if any(node.free for node in parts) else None


def _conjunction_of(tree: Filter, names: set[str], positions: dict[int, int]) -> _Conjunction:
    """Return the filter's conditions on the fields `names`, outside its disjunctions."""
    constant: list[Filter] = []
    free: list[FreeTest] = []
    for conjunct in conjuncts(tree):
        if isinstance(conjunct, Or) or not any(first_name(path) in names for path in named_paths(conjunct)):
            continue
        if isinstance(conjunct, Comparison | In | RegexMatch) and id(conjunct) in positions:
            free.append(free_test(conjunct, positions))
        else:
            constant.append(conjunct)
    return _Conjunction(tuple(constant), tuple(free))


def _leaves(tree: Filter) -> Iterator[Filter]:
    """Yield the conditions that a filter is made of."""
    if isinstance(tree, And | Or):
        for child in tree.children:
            yield from _leaves(child)
    else:
        yield tree
