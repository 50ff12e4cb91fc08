"""The top-level fields that filters and stages read, identified by the first part of their paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from docstore.aggregation.expressions.dependencies import fields_of, top
from docstore.query.filter.tree import And, DocumentTest, Filter, Nor, Not, Or, named_paths


class FieldDependencies(NamedTuple):
    """The fields that one stage reads; None: any. `drops_others`: its output depends on no other field."""

    fields: Set[str] | None
    drops_others: bool = False


ANY_FIELD = FieldDependencies(None)


def fields_of_filter(tree: Filter) -> set[str] | None:
    """Return the fields that a filter reads; None if it may read any."""
    fields = {top(path) for path in named_paths(tree)}
    for test in _document_tests(tree):
        tested = fields_of(test.argument) if test.name == "$expr" else None
        if tested is None:
            return None
        fields |= tested
    return fields


def fields_of_stages(dependencies: Iterable[FieldDependencies]) -> frozenset[str] | None:
    """Return the fields that determine the output of stages, given the dependencies of each; None if any field may."""
    fields: set[str] = set()
    for stage in dependencies:
        if stage.fields is None:
            return None
        fields |= stage.fields
        if stage.drops_others:
            return frozenset(fields)
    return None


def _document_tests(tree: Filter) -> Iterator[DocumentTest]:
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in children:
                yield from _document_tests(child)
        case Not(child):
            yield from _document_tests(child)
        case DocumentTest():
            yield tree
        case _:
            return
