"""`$match`: keep the documents that satisfy a filter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from docstore.aggregation.field_dependencies import FieldDependencies, fields_of_filter
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.streams import StageRun, Streaming
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, Value, elements, get_field, values
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.documents import scan
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.special_conditions import has_text_search
from docstore.query.filter.tree import Filter, conjunction
from docstore.query.filter.where import functions_of, scripts_of
from docstore.query.find import FindQuery
from docstore.query.geo.operators import NEAR
from docstore.query.metadata import Measure, measures_of

_ANY_NUMBER = 1 << 62
_NOT_IN_PIPELINES = NEAR | {"$where"}


@dataclass(frozen=True, slots=True)
class Match(PlainStage):
    raw: bytes
    filter: Filter
    pushed_down: bool = False
    """True if the conditions that it implies for the previous stage's input are already placed before that."""

    keeps_documents = True
    runs_on_shards = True

    @property
    def searches_text(self) -> bool:
        return has_text_search(self.filter)

    @property
    def measures(self) -> Mapping[str, Measure]:
        return measures_of(self.filter)

    @property
    def field_dependencies(self) -> FieldDependencies:
        return FieldDependencies(fields_of_filter(self.filter))

    @property
    def specification(self) -> bytes:
        """The filter as written."""
        specification = get_field(self.raw, "$match")
        assert specification is not None, "a stage carries its specification"
        return specification[1]

    @property
    def leading_filter(self) -> Filter | None:
        return self.filter

    def in_find(self, query: FindQuery, *, with_sort: bool) -> FindQuery | None:
        if query.skip or query.limit:
            return None
        return replace(query, filter=conjunction([query.filter, self.filter]))

    def start(self, environment: Environment) -> StageRun:
        predicate: Predicate = compile_filter(self.filter)
        functions = [function for test in scripts_of(self.filter) for function in functions_of(test)]

        def work(documents: list[bytes]) -> list[bytes]:
            for function in functions:
                function.prefetch(documents)
            matches: list[bytes] = []
            scan(iter(documents), predicate, matches, _ANY_NUMBER, _ANY_NUMBER, environment.clock, math.inf)
            return matches

        return Streaming(work)


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(15959, "the match filter must be an expression in an object")
    query_context = replace(query_context, excluded=query_context.excluded | _NOT_IN_PIPELINES)
    return [Match(document_from([("$match", *value)]), parse_filter(value[1], query_context=query_context))]


def parts_of(raw: bytes) -> Iterator[bytes]:
    """Yield the filters whose conjunction is this one."""
    for name, code, data in elements(raw):
        if name == "$and":
            for _, member in values(data):
                yield from parts_of(member)
        else:
            yield document_from([(name, code, data)])


DECLARATIONS = (Declaration("$match", _parse),)
