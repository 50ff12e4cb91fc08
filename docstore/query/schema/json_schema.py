"""`$jsonSchema`: schemas of JSON Schema draft 4, with BSON's types, compiled to predicates of values.

- A keyword about values of one type accepts all values of other types.
- A property's name is a path through embedded documents, except in `patternProperties` and `additionalProperties`.
- `enum` and `uniqueItems` compare numbers across types, and documents in any order of fields.
- Like MongoDB, a schema supports neither `$ref`, `$schema`, `default`, `definitions`, `format`, `id` nor the type
  "integer".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docstore.bson.allowance import spend
from docstore.bson.walk import ARRAY, BOOL, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.match.path_predicates import Exists, Type
from docstore.kernel.match.predicate import Always, And, Not, Or, Predicate
from docstore.kernel.match.schema_predicates import Among, DocumentPredicate, Holds, Items, OneOf, Properties, Required
from docstore.query.filter.path_operators import type_codes
from docstore.query.filter.regex import Search, compile_regex
from docstore.query.schema import value_keywords as leaf
from docstore.query.schema.value_keywords import Fields, distinct_texts, wrong_type
from docstore.query.value.notation import display
from docstore.query.value.values import is_true, text_of, type_name

Group = tuple[tuple[str, ...], Callable[[Fields, bool], list[Predicate]]]
"""Keywords that are parsed together, and their parser: (all keywords, whether about a whole document) -> predicates of
values.
"""

_UNSUPPORTED = frozenset(("$ref", "$schema", "default", "definitions", "format", "id"))
_ENCRYPTION = frozenset(("encrypt", "encryptMetadata"))
_JSON_TYPES = {name: name for name in ("array", "null", "number", "object", "string")} | {"boolean": "bool"}


def parse_schema(value: Value) -> Predicate:
    """Return the predicate of documents that a schema describes.

    Errors: TypeMismatch and FailedToParse as MongoDB has them, NotImplemented for client-side encryption.
    """
    if value[0] != OBJECT:
        raise wrong_type("$jsonSchema", "an object")
    return DocumentPredicate(_schema(value[1], top=True))


_PER_SCHEMA = 4096
"""Units of work charged for looking up all keywords."""


def _schema(raw: bytes, top: bool = False) -> Predicate:
    spend(_PER_SCHEMA)
    fields: dict[str, Value] = {}
    for name, code, data in elements(raw):
        _check_keyword(name, fields)
        fields[name] = (code, data)
    tests: list[Predicate] = []
    for keywords, parse in _GROUPS:
        if any(keyword in fields for keyword in keywords):
            tests.extend(parse(fields, top))
    return tests[0] if len(tests) == 1 else And(tests)


def _check_keyword(name: str, fields: Fields) -> None:
    if name in fields:
        raise CommandError(Code.FailedToParse, f"Duplicate $jsonSchema keyword: {name}")
    if name in _ENCRYPTION:
        raise CommandError(Code.NotImplemented, f"the $jsonSchema keyword '{name}' is not supported by this server")
    if name in _UNSUPPORTED:
        raise CommandError(Code.FailedToParse, f"$jsonSchema keyword '{name}' is not currently supported")
    if name not in _KEYWORDS:
        raise CommandError(Code.FailedToParse, f"Unknown $jsonSchema keyword: {name}")


def _leaves(*keywords: str) -> Group:
    """Return a group of keywords that are each parsed separately."""

    def parse(fields: Fields, top: bool) -> list[Predicate]:
        tests = [leaf.KEYWORDS[keyword](fields, top) for keyword in keywords if keyword in fields]
        return [test for test in tests if test is not None]

    return keywords, parse


def _annotations(fields: Fields, top: bool) -> list[Predicate]:
    for keyword in ("title", "description"):
        if keyword in fields and fields[keyword][0] != STRING:
            raise wrong_type(keyword, "of type string")
    return []


def _types(fields: Fields, top: bool) -> list[Predicate]:
    if "type" in fields and "bsonType" in fields:
        raise CommandError(Code.FailedToParse, "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
    keyword = "type" if "type" in fields else "bsonType"
    value = fields[keyword]
    if value[0] not in (STRING, ARRAY):
        raise wrong_type(keyword, "either a string or an array of strings")
    aliases = distinct_texts(keyword, values(value[1]) if value[0] == ARRAY else [value])
    if not aliases:
        raise CommandError(Code.FailedToParse, f"$jsonSchema keyword '{keyword}' must name at least one type")
    codes = frozenset(code for alias in aliases for code in _codes(keyword, alias))
    return [Type("", codes)]


def _codes(keyword: str, alias: Value) -> frozenset[int]:
    if keyword == "bsonType":
        return type_codes(alias)
    text = text_of(alias)
    if text == "integer":
        raise CommandError(Code.FailedToParse, "$jsonSchema type 'integer' is not currently supported.")
    if text not in _JSON_TYPES:
        raise CommandError(Code.BadValue, f"Unknown type name alias: {text}")
    return type_codes(leaf.text_value(_JSON_TYPES[text]))


def _logic(fields: Fields, top: bool) -> list[Predicate]:
    tests: list[Predicate] = []
    if "allOf" in fields:
        tests += _schemas("allOf", fields["allOf"], top)
    if "anyOf" in fields:
        tests.append(Or(_schemas("anyOf", fields["anyOf"], top)))
    if "oneOf" in fields:
        tests.append(OneOf(_schemas("oneOf", fields["oneOf"], top)))
    if "not" in fields:
        if fields["not"][0] != OBJECT:
            raise wrong_type("not", "an object")
        tests.append(Not(_schema(fields["not"][1], top)))
    return tests


def _schemas(keyword: str, value: Value, top: bool) -> list[Predicate]:
    if value[0] != ARRAY:
        raise wrong_type(keyword, "an array")
    members = values(value[1])
    if not members:
        raise CommandError(Code.BadValue, f"$jsonSchema keyword '{keyword}' must be a non-empty array")
    tests: list[Predicate] = []
    for code, raw in members:
        if code != OBJECT:
            raise wrong_type(keyword, "an array of objects")
        tests.append(_schema(raw, top))
    return tests


def _required(fields: Fields, top: bool) -> list[Predicate]:
    value = fields["required"]
    if value[0] != ARRAY:
        raise wrong_type("required", "an array")
    members = values(value[1])
    if not members:
        raise CommandError(Code.FailedToParse, "$jsonSchema keyword 'required' cannot be an empty array")
    return _presences([text_of(member) for member in distinct_texts("required", members)])


def _properties(fields: Fields, top: bool) -> list[Predicate]:
    """Parse `properties`, `patternProperties` and `additionalProperties` together: the last is about
    unmatched fields.
    """
    named = _named_schemas("properties", fields)
    patterned = _named_schemas("patternProperties", fields)
    patterns = [(_name_pattern(pattern), part) for pattern, part in patterned.items()]
    return [Properties(named, patterns, _additional("additionalProperties", fields))]


def _presences(names: Sequence[str]) -> list[Predicate]:
    """Return the predicates of documents that have these properties; a path traverses arrays too."""
    return [Required([name]) if "." not in name else Holds(Exists(name, True)) for name in names]


def _name_pattern(pattern: str) -> Search:
    try:
        return compile_regex(pattern, "")
    except CommandError as error:
        raise CommandError(Code.BadValue, f"Invalid regular expression: {error.message}") from None


def _named_schemas(keyword: str, fields: Fields) -> dict[str, Predicate]:
    if keyword not in fields:
        return {}
    code, raw = fields[keyword]
    if code != OBJECT:
        raise wrong_type(keyword, "an object")
    schemas: dict[str, Predicate] = {}
    for name, kind, data in elements(raw):
        if kind != OBJECT:
            raise CommandError(Code.TypeMismatch, f"the schema of '{name}' in '{keyword}' must be an object")
        schemas[name] = _schema(data)
    return schemas


def _additional(keyword: str, fields: Fields) -> Predicate | None:
    """Return the predicate of additional items or properties: a schema or a boolean."""
    if keyword not in fields:
        return None
    value = fields[keyword]
    if value[0] == BOOL:
        return Always(is_true(value))
    if value[0] != OBJECT:
        raise wrong_type(keyword, "an object or a boolean")
    return _schema(value[1])


def _dependencies(fields: Fields, top: bool) -> list[Predicate]:
    code, raw = fields["dependencies"]
    if code != OBJECT:
        raise wrong_type("dependencies", "an object")
    return [_dependency(name, (kind, data), top) for name, kind, data in elements(raw)]


def _dependency(name: str, value: Value, top: bool) -> Predicate:
    (asks,) = _presences([name])
    if value[0] == OBJECT:
        needed = [_schema(value[1], top)]
    elif value[0] == ARRAY:
        members = values(value[1])
        if not members:
            raise CommandError(Code.FailedToParse, f"property '{name}' in 'dependencies' cannot be an empty array")
        needed = _presences([text_of(member) for member in distinct_texts("dependencies", members)])
    else:
        raise CommandError(Code.TypeMismatch, f"property '{name}' in 'dependencies' must be an object or an array")
    return Among(leaf.OBJECTS, Or([Not(asks), And(needed)]))


def _items(fields: Fields, top: bool) -> list[Predicate]:
    if "items" not in fields:
        _additional("additionalItems", fields)
        return []
    value = fields["items"]
    if value[0] == OBJECT:
        element_schema = _schema(value[1])
        _additional("additionalItems", fields)
        return [Items((), element_schema)]
    if value[0] != ARRAY:
        raise wrong_type("items", f"an array or an object, not {type_name(value)}")
    schemas: list[Predicate] = []
    for member in values(value[1]):
        if member[0] != OBJECT:
            raise wrong_type("items", f"an array of objects, but holds {display(member)}")
        schemas.append(_schema(member[1]))
    return [Items(schemas, _additional("additionalItems", fields))]


_GROUPS: tuple[Group, ...] = (
    (("title", "description"), _annotations),
    (("type", "bsonType"), _types),
    _leaves(
        "pattern", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum", "minLength", "maxLength"
    ),
    _leaves("minItems", "maxItems", "uniqueItems"),
    (("items", "additionalItems"), _items),
    (("required",), _required),
    (("properties", "patternProperties", "additionalProperties"), _properties),
    _leaves("minProperties", "maxProperties"),
    (("dependencies",), _dependencies),
    (("allOf", "anyOf", "oneOf", "not"), _logic),
    _leaves("enum"),
)
"""The groups, in the order in which their errors take precedence."""

_KEYWORDS = frozenset(keyword for keywords, _ in _GROUPS for keyword in keywords)
