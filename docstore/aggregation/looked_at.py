"""Which fields of the top level filters and stages look at, told by the first parts of their paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docstore.aggregation.expressions.dependencies import fields_of, top
from docstore.aggregation.stage import Stage
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.limit import Limit, Skip
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.project import Project
from docstore.aggregation.stages.sort import SortStage
from docstore.query.filter.tree import And, DocumentTest, Filter, Nor, Not, Or, named_paths


def fields_of_filter(tree: Filter) -> set[str] | None:
    """The fields that a filter looks at; None where it may look at any."""
    found = {top(path) for path in named_paths(tree)}
    for test in _document_tests(tree):
        fields = fields_of(test.argument) if test.name == "$expr" else None
        if fields is None:
            return None
        found |= fields
    return found


def fields_of_stages(stages: Iterable[Stage]) -> frozenset[str] | None:
    """The fields on which it depends what the stages make; None where it may depend on any."""
    found: set[str] = set()
    for stage in stages:
        fields, ends = _fields(stage)
        if fields is None:
            return None
        found |= fields
        if ends:
            return frozenset(found)
    return None


def _fields(stage: Stage) -> tuple[set[str] | None, bool]:
    """The fields that a stage looks at, None for any, and whether it passes no others on."""
    match stage:
        case Limit() | Skip():
            return set(), False
        case Match():
            return fields_of_filter(stage.filter), False
        case SortStage() if not stage.sort.measures:
            return {top(path) for path, _ in stage.sort.fields}, False
        case Group():
            paths = stage.paths()
            return None if paths is None else {top(path) for path in paths}, True
        case Project() if stage.only_keeps_fields:
            return {"_id", *stage.projection.root.children}, True
        case _:
            return None, True


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
