"""`$redact`: keeps, prunes or descends into each document and its subdocuments."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.expressions.parse import Parser
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.streams import StageRun, Streaming
from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.value.values import string_value

_DESCEND = string_value("descend")
_PRUNE = string_value("prune")
_KEEP = string_value("keep")


@dataclass(frozen=True, slots=True)
class Redact(PlainStage):
    raw: bytes
    evaluate: Evaluate

    def start(self, environment: Environment) -> StageRun:
        return Streaming(self._work)

    def _work(self, documents: list[bytes]) -> list[bytes]:
        results = [self._redacted(document, {"ROOT": (OBJECT, document)}) for document in documents]
        return [document for document in results if document is not None]

    def _redacted(self, document: bytes, variables: dict[str, Value | None]) -> bytes | None:
        verdict = self.evaluate(Scope(document, variables))
        if verdict == _KEEP:
            return document
        if verdict == _PRUNE:
            return None
        if verdict != _DESCEND:
            raise CommandError(
                17053, "$redact's expression should return one of the variables $$KEEP, $$DESCEND and $$PRUNE"
            )
        fields: list[tuple[str, int, bytes]] = []
        for name, code, data in elements(document):
            field_value = self._value((code, data), variables)
            if field_value is not None:
                fields.append((name, *field_value))
        return document_from(fields)

    def _value(self, value: Value, variables: dict[str, Value | None]) -> Value | None:
        if value[0] == OBJECT:
            document = self._redacted(value[1], variables)
            return None if document is None else (OBJECT, document)
        if value[0] == ARRAY:
            members = [self._value(member, variables) for member in values(value[1])]
            return ARRAY, array_from([member for member in members if member is not None])
        return value


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    verdicts = {"DESCEND": _DESCEND, "PRUNE": _PRUNE, "KEEP": _KEEP}
    bound = query_context.binding(verdicts)
    evaluate = Parser(bound).with_variables("ROOT").expression(value).evaluate
    return [Redact(document_from([("$redact", *value)]), evaluate)]


DECLARATIONS = (Declaration("$redact", _parse),)
