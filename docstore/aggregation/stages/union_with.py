"""`$unionWith`: appends the documents of another collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from docstore.aggregation.stage import Declaration, EnclosingStage, Environment, Nesting, Pipeline, Stage
from docstore.aggregation.stages.foreign import check_collection, check_letters, foreign_of, pipeline_of
from docstore.aggregation.streams import Stream
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value
from docstore.errors import Code, CommandError
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import text_of, type_name


@dataclass(frozen=True, slots=True)
class UnionWith(Stage):
    """The stage. `collection`: None if the pipeline has its own source.

    Its name is checked at the opening, since a view may be defined without one.
    """

    raw: bytes
    collection: str | None
    pipeline: Pipeline

    @property
    def collections(self) -> frozenset[str]:
        return (
            self.pipeline.other_collections
            if self.collection is None
            else self.pipeline.other_collections | {self.collection}
        )

    def open(self, source: Stream, environment: Environment) -> Stream:
        if self.collection is not None:
            check_collection("$unionWith", self.collection)
        return _UnionStream(self, source, environment)


class _UnionStream:
    def __init__(self, stage: UnionWith, source: Stream, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._source = source
        self._other: Stream | None = None

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        if self._other is None:
            documents, last = self._source.next_batch(deadline)
            if last:
                stage = self._stage
                self._other = foreign_of(self._environment, stage.collection, stage.pipeline)
            return documents, False
        return self._other.next_batch(deadline)


class UnionOptions(NamedTuple):
    """The options of a `$unionWith`; `collection`: None if none is named."""

    collection: str | None
    stages: list[bytes]


def read_union(value: Value) -> UnionOptions:
    """Return the options of a stage. Errors: FailedToParse, TypeMismatch, InvalidNamespace, Location40413, 40415."""
    if value[0] == STRING:
        return UnionOptions(check_letters("$unionWith", text_of(value)), [])
    if value[0] != OBJECT:
        raise CommandError(
            Code.FailedToParse,
            f"the $unionWith stage specification must be an object or string, but found {type_name(value)}",
        )
    collection: str | None = None
    stages: list[bytes] = []
    for name, option in option_fields("$unionWith", value[1]).items():
        if name == "coll":
            _check_type(name, option, STRING, "string")
            collection = check_letters("$unionWith", text_of(option))
        elif name == "pipeline":
            _check_type(name, option, ARRAY, "array")
            stages = pipeline_of(option)
        else:
            raise CommandError(40415, f"BSON field '$unionWith.{name}' is an unknown field.")
    return UnionOptions(collection, stages)


def _parse(value: Value, nesting: Nesting) -> list[Stage]:
    collection, stages = read_union(value)
    raw = document_from([("$unionWith", *value)])
    pipeline = nesting.pipeline(stages, EnclosingStage.UNION, nesting.query_context)
    if collection is None and (pipeline.needs_collection or not pipeline.stages):
        raise CommandError(
            Code.FailedToParse,
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage",
        )
    return [UnionWith(raw, collection, pipeline)]


def _check_type(name: str, value: Value, code: int, expected: str) -> None:
    if value[0] != code:
        raise CommandError(
            Code.TypeMismatch,
            f"BSON field '$unionWith.{name}' is the wrong type '{type_name(value)}', expected type '{expected}'",
        )


DECLARATIONS = (Declaration("$unionWith", None, parse_nesting=_parse),)
