"""`$project`, `$addFields` (also called `$set`) and `$unset`: transform documents field by field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from docstore.aggregation.expressions.compiled import compile_value
from docstore.aggregation.field_dependencies import ANY_FIELD, FieldDependencies
from docstore.aggregation.filter_pushdown import FieldTest, PathSource, copies_of
from docstore.aggregation.stage import Declaration, Environment, PlainStage, Stage
from docstore.aggregation.streams import StageRun, Streaming
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.projection.parse import parse_project_stage
from docstore.query.projection.projection import (
    DROP,
    KEEP,
    Branch,
    Computed,
    PathCollision,
    Projection,
    plant,
    projection_of,
)
from docstore.query.scripts import Prefetched
from docstore.query.value.notation import display
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import text_of, type_name


@dataclass(frozen=True, slots=True)
class Project(PlainStage):
    """Any of the three: a projection applied to each document."""

    raw: bytes
    projection: Projection
    calculates: bool = False
    """True if it computes fields."""
    functions: tuple[Prefetched, ...] = ()
    """Its scripts."""

    runs_on_shards = True
    maps_documents = True

    @property
    def only_keeps_fields(self) -> bool:
        return not self.calculates and not self.projection.keep_others

    @property
    def field_dependencies(self) -> FieldDependencies:
        if not self.only_keeps_fields:
            return ANY_FIELD
        return FieldDependencies({"_id", *self.projection.root.children}, drops_others=True)

    @property
    def preserved_fields(self) -> FieldTest:
        children, default = self.projection.root.children, KEEP if self.projection.keep_others else None
        return lambda name: children.get(name, default) is KEEP

    @property
    def copied_paths(self) -> PathSource | None:
        [(_, kind, fields)] = elements(self.raw)
        return copies_of(fields) if kind == OBJECT else None

    def start(self, environment: Environment) -> StageRun:
        return Streaming(self._with_functions if self.functions else self.projection.apply_all)

    def _with_functions(self, documents: list[bytes]) -> list[bytes]:
        for function in self.functions:
            function.prefetch(documents)
        return self.projection.apply_all(documents)


def parse_project(value: Value, query_context: QueryContext) -> list[Stage]:
    """Parse the stage."""
    if value[0] != OBJECT:
        raise CommandError(15969, "$project specification must be an object")
    functions: list[Prefetched] = []
    projection = parse_project_stage(value[1], query_context=replace(query_context, functions=functions))
    return [Project(document_from([("$project", *value)]), projection, projection.computes, tuple(functions))]


def parse_add_fields(value: Value, query_context: QueryContext, name: str = "$addFields") -> list[Stage]:
    """Parse an `$addFields`, under one of its two names."""
    if value[0] != OBJECT:
        raise CommandError(40272, f"$addFields specification stage must be an object, got {type_name(value)}")
    root = Branch()
    functions: list[Prefetched] = []
    _plant_fields(root, "", value, replace(query_context, functions=functions))
    projection = projection_of(root, keep_others=True, in_place=True)
    return [Project(document_from([(name, *value)]), projection, True, tuple(functions))]


def _plant_fields(root: Branch, prefix: str, value: Value, query_context: QueryContext) -> None:
    """Add the fields to the tree. Embedded documents that are no operators denote paths, as in `$project`."""
    for name, code, data in elements(value[1]):
        check_field_path(name)
        if prefix and "." in name:
            raise CommandError(40183, f"cannot use dotted field name '{name}' in a sub object")
        path = prefix + name
        fields = elements(data) if code == OBJECT else []
        if code == OBJECT and not fields:
            raise CommandError(40180, f"an empty object is not a valid value. Found empty object at path {path}")
        operators = [inner for inner, _, _ in fields if inner.startswith("$")]
        if fields and not operators:
            _plant_fields(root, path + ".", (code, data), query_context)
            continue
        if operators and len(fields) > 1:
            raise CommandError(
                40181,
                "an expression specification must contain exactly one field, the name of the expression. Found"
                f" {len(fields)} fields in {display((code, data))}",
            )
        try:
            plant(root, path, Computed(compile_value((code, data), query_context)))
        except PathCollision as collision:
            raise CommandError(
                40176, f"specification contains two conflicting paths. One of them is '{collision.path}'"
            ) from None


def _parse_unset(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] == STRING:
        path_values = [value]
    elif value[0] == ARRAY:
        path_values = values(value[1])
        if not path_values:
            raise CommandError(31119, "$unset specification must be a string or an array with at least one field")
        if any(item[0] != STRING for item in path_values):
            raise CommandError(31120, "$unset specification must be a string or an array containing only string values")
    else:
        raise CommandError(31002, "$unset specification must be a string or an array")
    root = Branch()
    for path in map(text_of, path_values):
        check_field_path(path)
        try:
            plant(root, path, DROP)
        except PathCollision as collision:
            if collision.remaining:
                raise CommandError(31249, f"Path collision at {path} remaining portion {collision.remaining}") from None
            raise CommandError(31250, f"Path collision at {path}") from None
    return [Project(document_from([("$unset", *value)]), projection_of(root, keep_others=True))]


DECLARATIONS = (
    Declaration("$addFields", parse_add_fields),
    Declaration("$project", parse_project),
    Declaration("$set", partial(parse_add_fields, name="$set")),
    Declaration("$unset", _parse_unset),
)
