"""Access to fields by arbitrary names (`$getField`, `$setField`, `$unsetField`), and sizes of values in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    folded,
    is_nullish,
    unary,
)
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, BINARY, NULL, OBJECT, STRING, UNDEFINED, Value, elements, get_field
from docstore.errors import CommandError
from docstore.query.value.values import NULL_VALUE, int32_value, string_value, text_of, type_name

_ROOT = string_value("$$CURRENT")


@dataclass(frozen=True, slots=True)
class _Codes:
    """Error codes for an invalid field name: a path, not a constant, not a string."""

    path: int
    not_constant: int
    not_text: int


def _name(operator: str, value: Value, parsed: Expression, codes: _Codes) -> str:
    """Return the name of a field, a constant string."""
    if value[0] == STRING and text_of(value).startswith("$"):
        raise CommandError(codes.path, f"'{text_of(value)}' is a field path reference which is not allowed here")
    literal = value[0] == OBJECT and [name for name, _, _ in elements(value[1])] in (["$literal"], ["$const"])
    if value[0] in (ARRAY, OBJECT) and not literal:
        raise CommandError(codes.not_constant, f"{operator} requires 'field' to evaluate to a constant")
    constant = parsed.constant
    if constant is None or constant[0] != STRING:
        raise CommandError(
            codes.not_text, f"{operator} requires 'field' to evaluate to type String, but got {type_name(constant)}"
        )
    if not text_of(constant):
        raise CommandError(15998, "FieldPath field names may not be empty strings.")
    return text_of(constant)


_GET = _Codes(5654600, 5654601, 5654602)
_SET = _Codes(4161108, 4161106, 4161107)


def _parse_get(name: str, value: Value, parsing: Parsing) -> Expression:
    fields = elements(value[1]) if value[0] == OBJECT else []
    if value[0] != OBJECT or (fields and fields[0][0].startswith("$")):
        arguments = {"field": value, "input": _ROOT}
    else:
        arguments = {}
        for field, code, data in fields:
            if field not in ("field", "input"):
                raise CommandError(3041701, f"{name} found an unknown argument: {field}")
            arguments[field] = (code, data)
        if "field" not in arguments:
            raise CommandError(3041702, f"{name} requires 'field' to be specified")
        if "input" not in arguments:
            raise CommandError(3041703, f"{name} requires 'input' to be specified")
    source = parsing.expression(arguments["input"])
    field_name = _name(name, arguments["field"], parsing.expression(arguments["field"]), _GET)
    evaluate = source.evaluate

    def get(scope: Scope) -> Value | None:
        operand = evaluate(scope)
        if operand is None:
            return None
        if operand[0] != OBJECT:
            return NULL_VALUE if operand[0] in (NULL, UNDEFINED) else None
        return get_field(operand[1], field_name)

    return folded(get, [source])


def _setting(name: str, parameters: tuple[str, ...]) -> OperatorParser:
    def parse(operator: str, value: Value, parsing: Parsing) -> Expression:
        if value[0] != OBJECT:
            raise CommandError(4161100, f"{name} only supports an object as its argument")
        arguments: dict[str, Value] = {}
        parsed: dict[str, Expression] = {}
        for field, code, data in elements(value[1]):
            if field not in parameters:
                raise CommandError(4161101, f"{name} found an unknown argument: {field}")
            arguments[field] = (code, data)
            parsed[field] = parsing.expression((code, data))
        for field, missing in (("field", 4161102), ("value", 4161103), ("input", 4161109)):
            if field in parameters and field not in arguments:
                raise CommandError(missing, f"{name} requires '{field}' to be specified")
        changed = _name(name, arguments["field"], parsed["field"], _SET)
        source, replacement = parsed["input"], parsed.get("value")
        document = source.evaluate
        value_of = None if replacement is None else replacement.evaluate

        def evaluate(scope: Scope) -> Value:
            operand = document(scope)
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            if operand[0] != OBJECT:
                raise CommandError(4161105, "$setField requires 'input' to evaluate to type Object")
            return OBJECT, _with_field(operand[1], changed, None if value_of is None else value_of(scope))

        return folded(evaluate, [source] if replacement is None else [source, replacement])

    return parse


def _with_field(document: bytes, changed: str, value: Value | None) -> bytes:
    """Return the document with the field replaced in place, appended, or removed (None)."""
    fields: list[tuple[str, int, bytes]] = []
    done = value is None
    for name, code, data in elements(document):
        if name != changed:
            fields.append((name, code, data))
        elif value is not None:
            fields.append((name, *value))
            done = True
    if not done and value is not None:
        fields.append((changed, *value))
    return document_from(fields)


def _binary_size(operand: Value | None) -> Value:
    if operand is None or is_nullish(operand):
        return NULL_VALUE
    if operand[0] in (STRING, BINARY):
        return int32_value(len(operand[1]) - 5)
    raise CommandError(51276, f"$binarySize requires a string or BinData argument, found: {type_name(operand)}")


def _bson_size(operand: Value | None) -> Value:
    if operand is None or is_nullish(operand):
        return NULL_VALUE
    if operand[0] != OBJECT:
        raise CommandError(31393, f"$bsonSize requires a document input, found: {type_name(operand)}")
    return int32_value(len(operand[1]))


OPERATORS: Table = {
    "$binarySize": unary(_binary_size),
    "$bsonSize": unary(_bson_size),
    "$getField": _parse_get,
    "$setField": _setting("$setField", ("field", "input", "value")),
    "$unsetField": _setting("$unsetField", ("field", "input")),
}
