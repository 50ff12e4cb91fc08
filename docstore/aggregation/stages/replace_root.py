"""`$replaceRoot` and `$replaceWith`: replace the document by an embedded or computed document."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.streams import StageRun, Streaming
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, Value
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import type_name


@dataclass(frozen=True, slots=True)
class ReplaceRoot(PlainStage):
    raw: bytes
    evaluate: Evaluate

    runs_on_shards = True
    maps_documents = True

    def start(self, environment: Environment) -> StageRun:
        return Streaming(lambda documents: [self._replacement(document) for document in documents])

    def _replacement(self, document: bytes) -> bytes:
        root = self.evaluate(Scope(document))
        if root is None or root[0] != OBJECT:
            text = "MISSING" if root is None else display(root)
            raise CommandError(
                40228,
                f"the new root must evaluate to an object, but resulting value was: {text}. Type of resulting value:"
                f" '{type_name(root)}'",
            )
        return root[1]


def _parse_root(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(40229, f"expected an object as specification for $replaceRoot stage, got {type_name(value)}")
    new_root: Value | None = None
    for name, (code, data) in option_fields("$replaceRoot", value[1]).items():
        if name != "newRoot":
            raise CommandError(40415, f"BSON field '$replaceRoot.{name}' is an unknown field.")
        new_root = (code, data)
    if new_root is None:
        raise CommandError(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field")
    return [
        ReplaceRoot(
            document_from([("$replaceRoot", *value)]), parse_expression(new_root, query_context=query_context).evaluate
        )
    ]


def _parse_with(value: Value, query_context: QueryContext) -> list[Stage]:
    return [
        ReplaceRoot(
            document_from([("$replaceWith", *value)]), parse_expression(value, query_context=query_context).evaluate
        )
    ]


DECLARATIONS = (Declaration("$replaceRoot", _parse_root), Declaration("$replaceWith", _parse_with))
