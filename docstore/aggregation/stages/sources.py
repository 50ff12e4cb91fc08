"""Stages that make documents of their own: `$collStats` and `$documents`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import Declaration, Environment, Stage, StageRun
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.language import Language
from docstore.query.unsupported import not_supported
from docstore.query.values import type_name

_STATISTICS = ("count", "storageStats")
_OTHER_STATISTICS = ("latencyStats", "queryExecStats")


class _SourceRun:
    """Gives out the documents that `make` makes, all at the first `finish`."""

    satisfied = True

    def __init__(self, make: Callable[[], list[bytes]]) -> None:
        self._make = make

    def push(self, documents: list[bytes]) -> list[bytes]:
        assert not documents, "a source stage takes no input"
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        return self._make(), True


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """`$collStats`; the numbers come from the environment."""

    raw: bytes
    options: bytes

    def start(self, environment: Environment) -> StageRun:
        documents = environment.process_documents
        if documents is None:
            raise not_supported("stage in this place", "$collStats")
        return _SourceRun(lambda: documents("$collStats", self.options))


@dataclass(frozen=True, slots=True)
class Documents:
    """`$documents`: the documents stand in the pipeline itself."""

    raw: bytes
    documents: tuple[bytes, ...]

    def start(self, environment: Environment) -> StageRun:
        return _SourceRun(lambda: list(self.documents))


def _parse_statistics(value: Value, language: Language) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(5447000, f"$collStats must take a nested object but found: {type_name(value)}")
    for name, code, data in elements(value[1]):
        if name in _OTHER_STATISTICS:
            raise not_supported("option of $collStats", name)
        if name not in _STATISTICS:
            raise CommandError(40415, f"BSON field '$collStats.{name}' is an unknown field.")
        if code != OBJECT:
            raise CommandError(
                Code.TypeMismatch,
                f"BSON field '$collStats.{name}' is the wrong type '{type_name((code, data))}', expected type 'object'",
            )
    return [CollectionStatistics(document_from([("$collStats", *value)]), value[1])]


def _parse_documents(value: Value, language: Language) -> list[Stage]:
    found = parse_expression(value, language=language).evaluate(Scope(EMPTY_DOCUMENT))
    if found is None or found[0] != ARRAY:
        raise CommandError(5858203, f"$documents must evaluate to an array of objects, found {type_name(found)}")
    members = values(found[1])
    for member in members:
        if member[0] != OBJECT:
            raise CommandError(40228, f"$documents must hold objects, found {type_name(member)}")
    return [Documents(document_from([("$documents", *value)]), tuple(raw for _, raw in members))]


DECLARATIONS = (
    Declaration("$collStats", _parse_statistics, only_first=True),
    Declaration("$documents", _parse_documents, only_first=True),
)
