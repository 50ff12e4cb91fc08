"""Functions shared by the stages that read other collections."""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.stage import Environment, Foreign, Pipeline
from docstore.aggregation.stages.match import Match
from docstore.aggregation.streams import Stream
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import ARRAY, OBJECT, REGEX, STRING, Value, elements, get_field, values
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import Always, Filter, In, conjunction
from docstore.query.unsupported import not_supported
from docstore.query.value.collation import Collation, holds_strings
from docstore.query.value.values import NULL_VALUE, int32_value, type_name


def foreign_of(environment: Environment, collection: str | None, pipeline: Pipeline) -> Stream:
    """Return the output of a pipeline over a collection, or over the documents of its source stage."""
    if not pipeline.needs_collection:
        return pipeline.open_own(environment)
    assert collection is not None, "checked when the stage was parsed"
    return other_collections(environment).open(collection, pipeline)


def other_collections(environment: Environment) -> Foreign:
    """Return the other collections. Errors: NotImplemented if the environment has none."""
    if environment.foreign is None:
        raise not_supported("place for a stage that reads", "another collection")
    return environment.foreign


def pipeline_of(value: Value) -> list[bytes]:
    """Return the stages in an array. Errors: TypeMismatch."""
    stages = values(value[1])
    if any(code != OBJECT for code, _ in stages):
        raise CommandError(Code.TypeMismatch, "Each element of the 'pipeline' array must be an object")
    return [data for _, data in stages]


def check_collection(stage: str, name: str) -> str:
    """Return the name. Errors: InvalidNamespace if it is empty, and those of `check_letters`."""
    if not name:
        raise CommandError(Code.InvalidNamespace, f"invalid {stage} namespace: the collection has no name")
    return check_letters(stage, name)


def check_namespace(raw: bytes) -> None:
    """Check a namespace document `{db, coll}`. Errors: 40415, TypeMismatch."""
    for name, code, data in elements(raw):
        if name not in ("db", "coll"):
            raise CommandError(40415, f"BSON field 'from.{name}' is an unknown field.")
        if code != STRING:
            raise CommandError(
                Code.TypeMismatch,
                f"BSON field 'from.{name}' is the wrong type '{type_name((code, data))}', expected type 'string'",
            )


def check_letters(stage: str, name: str) -> str:
    """Return the name. Errors: InvalidNamespace if it begins with a dot or contains a NUL."""
    if name.startswith(".") or "\0" in name:
        raise CommandError(Code.InvalidNamespace, f"invalid {stage} namespace: no collection has such a name")
    return name


def in_values(path: str, join_values: list[Value], collation: Collation | None) -> In:
    """Return a filter for documents whose value at the path equals one of the values."""
    matters = collation is not None and any(map(holds_strings, join_values))
    return In(path, tuple(join_values), collation=collation if matters else None)


def equal_to_any(
    path: str,
    join_values: list[Value],
    collation: Collation | None,
    *,
    besides: list[tuple[bytes, Filter]] | None = None,
) -> Match:
    """Return a `$match` for documents whose value at the path equals one of the values, and that satisfy further
    filters.
    """
    plain = [value for value in join_values if value[0] != REGEX]
    conditions: list[Value] = [_condition(path, "$in", array_value(plain))] if plain else []
    conditions += [_condition(path, "$eq", value) for value in join_values if value[0] == REGEX]
    raw = conditions[0][1] if len(conditions) == 1 else document_from([("$or", *array_value(conditions))])
    tree: Filter = in_values(path, join_values, collation) if join_values else Always(False)
    if not join_values:
        raw = _NOTHING
    if besides:
        members: list[Value] = [(OBJECT, raw), *((OBJECT, condition) for condition, _ in besides)]
        raw = document_from([("$and", *array_value(members))])
        tree = conjunction([tree, *(condition for _, condition in besides)])
    return Match(document_from([("$match", OBJECT, raw)]), tree)


def _condition(path: str, operator: str, value: Value) -> Value:
    return OBJECT, document_from([(path, OBJECT, document_from([(operator, *value)]))])


_NOTHING = document_from([("$alwaysFalse", *int32_value(1))])


def values_at(document: bytes, parts: list[str]) -> list[Value]:
    """Return the values at a path. Arrays along the path are traversed; a final array yields its elements.

    A missing value is null.
    """
    field_values: list[Value] = []
    _gather((OBJECT, document), parts, 0, field_values)
    return field_values or [NULL_VALUE]


def values_reader(parts: list[str]) -> Callable[[bytes], list[Value]]:
    """Return `values_at` as a function of a document."""
    if len(parts) > 1:
        return lambda document: values_at(document, parts)
    (name,) = parts

    def read(document: bytes) -> list[Value]:
        field_value = get_field(document, name)
        if field_value is None:
            return [NULL_VALUE]
        return (values(field_value[1]) or [NULL_VALUE]) if field_value[0] == ARRAY else [field_value]

    return read


def _gather(value: Value, parts: list[str], depth: int, join_values: list[Value]) -> None:
    if depth == len(parts):
        join_values.extend(values(value[1]) if value[0] == ARRAY else [value])
        return
    if value[0] == ARRAY:
        for member in values(value[1]):
            if member[0] == OBJECT:
                _gather(member, parts, depth, join_values)
        return
    if value[0] != OBJECT:
        return
    inner = get_field(value[1], parts[depth])
    if inner is not None:
        _gather(inner, parts, depth + 1, join_values)
