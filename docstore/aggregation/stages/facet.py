"""`$facet`: several pipelines over the same documents, with all results in one document."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.limits import MAX_FACET_BYTES
from docstore.aggregation.sorted_runs import RUN_BYTES
from docstore.aggregation.stage import Declaration, EnclosingStage, Environment, Nesting, Pipeline, Position, Stage
from docstore.aggregation.streams import Feed, Stream
from docstore.bson.build import array_documents, document_from, members_of_array
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.buffers import BUFFERS
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import int32_bytes, type_name


@dataclass(frozen=True, slots=True)
class Facet(Stage):
    raw: bytes
    facets: tuple[tuple[str, Pipeline], ...]

    @property
    def collections(self) -> frozenset[str]:
        return frozenset[str]().union(*(pipeline.other_collections for _, pipeline in self.facets))

    def open(self, source: Stream, environment: Environment) -> Stream:
        return _FacetStream(self, source, environment)


class _Side:
    """One of the pipelines, being run."""

    def __init__(self, name: str, pipeline: Pipeline, environment: Environment) -> None:
        self.name = name
        self.feed = Feed()
        self.stream = pipeline.open(self.feed, environment)
        self.ended = False
        self._parts: list[bytes] = []
        self._count = 0
        self._size = 0
        self.size = 0
        """Bytes of the results."""

    def advance(self, deadline: float) -> bool:
        """Process the feed; False if more time is needed."""
        while not self.ended:
            documents, self.ended = self.stream.next_batch(deadline)
            if documents:
                self._take(documents)
            if not documents and not self.ended:
                return self.feed.hungry
        return True

    def _take(self, documents: list[bytes]) -> None:
        """Collect results, encoded for the array."""
        self._parts.append(members_of_array(documents, self._count))
        self._count += len(documents)
        self._size += len(self._parts[-1])
        self.size += sum(map(len, documents))

    def field(self) -> list[bytes]:
        """Return the pieces of the field with all results."""
        name = b"\x04" + self.name.encode() + b"\0"
        return [name, int32_bytes(self._size + 5), *self._parts, b"\0"]


class _FacetStream:
    """Feeds each batch of the source to every pipeline."""

    def __init__(self, stage: Facet, source: Stream, environment: Environment) -> None:
        self._source = source
        self._clock = environment.clock
        self._buffers = environment.buffers
        self._counted = 0
        self._sides = [_Side(name, pipeline, environment) for name, pipeline in stage.facets]
        self._behind = 0
        self._last = False

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        while True:
            while self._behind < len(self._sides):
                advanced = self._sides[self._behind].advance(deadline)
                self._look()
                if not advanced:
                    return [], False
                self._behind += 1
            if self._last:
                document = self._document()
                self._buffers.change(-self._counted)
                return [document], True
            documents, self._last = self._source.next_batch(deadline)
            if not documents and not self._last:
                return [], False
            for side in self._sides:
                if not side.ended:
                    side.feed.append(documents)
                    if self._last:
                        side.feed.end()
            self._behind = 0
            if self._clock() >= deadline:
                return [], False

    def _look(self) -> None:
        """Account for the results so far.

        Errors: 4031700 if they exceed one document, ExceededMemoryLimit if they exceed the process's memory.
        """
        size = sum(side.size for side in self._sides)
        if size > MAX_FACET_BYTES:
            raise CommandError(
                4031700, f"document constructed by $facet is {size} bytes, which exceeds the limit of {MAX_FACET_BYTES}"
            )
        self._buffers.change(size - self._counted)
        self._counted = size
        if size > RUN_BYTES and self._buffers.crowded:
            raise CommandError(
                Code.ExceededMemoryLimit,
                f"the results of $facet do not fit in memory. Memory limit: {BUFFERS.limit} bytes",
            )

    def _document(self) -> bytes:
        pieces = [b"", *(piece for side in self._sides for piece in side.field()), b"\0"]
        pieces[0] = int32_bytes(4 + sum(map(len, pieces)))
        return b"".join(pieces)


def read_facets(value: Value) -> list[tuple[str, list[bytes]]]:
    """Return the pipelines of a stage by name, in order. Errors: Location40169, 40170, 40171, 16412."""
    fields = elements(value[1]) if value[0] == OBJECT else []
    if not fields:
        raise CommandError(
            40169, f"the $facet specification must be a non-empty object, but found: $facet: {display(value)}"
        )
    facets: list[tuple[str, list[bytes]]] = []
    for name, code, data in fields:
        if code != ARRAY:
            raise CommandError(40170, f"arguments to $facet must be arrays, {name} is type {type_name((code, data))}")
        for member in values(data):
            if member[0] != OBJECT:
                raise CommandError(
                    40171,
                    f"elements of arrays in $facet spec must be non-empty objects, {name} argument contained an element"
                    f" of type {type_name(member)}",
                )
        check_field_path(name)
        if "." in name:
            raise CommandError(16412, f"the name of a facet may not contain '.': {name}")
        facets.append((name, array_documents(data)))
    return facets


def _parse(value: Value, nesting: Nesting) -> list[Stage]:
    facets = [
        (name, nesting.pipeline(stages, EnclosingStage.FACET, nesting.query_context))
        for name, stages in read_facets(value)
    ]
    return [Facet(document_from([("$facet", *value)]), tuple(facets))]


DECLARATIONS = (Declaration("$facet", None, Position(in_facet=False), _parse),)
