"""Details of a `$jsonSchema` mismatch: the rules that fail, in MongoDB's order and shape.

A rule is tested as a schema of its own over the value; rules about other types than the value's are satisfied. So the
details never contradict the match itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from docstore.bson import array_value, compare, document_from, elements, from_python, get_field, values
from docstore.bson.walk import ARRAY, BOOL, OBJECT, STRING, Value
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.regex import compile_regex
from docstore.query.value.values import TYPE_NAMES, int64_value, text_of

Field = tuple[str, int, bytes]

_COMPARISON = "comparison failed"
_SIMPLE: dict[str, tuple[str, str | None]] = {
    "multipleOf": ("considered value is not a multiple of the specified value", None),
    "maximum": (_COMPARISON, "exclusiveMaximum"),
    "minimum": (_COMPARISON, "exclusiveMinimum"),
    "pattern": ("regular expression did not match", None),
    "maxLength": ("specified string length was not satisfied", None),
    "minLength": ("specified string length was not satisfied", None),
    "enum": ("value was not found in enum", None),
}
"""Rules whose details show the value: their reason, and their companion rule."""
_LENGTH = "array did not match specified length"
_PROPERTIES = "specified number of properties was not satisfied"
_ORDER = (
    "multipleOf", "maximum", "minimum", "pattern", "maxLength", "minLength", "minItems", "maxItems", "uniqueItems",
    "items", "additionalItems", "properties", "additionalProperties", "patternProperties", "required",
    "minProperties", "maxProperties", "dependencies", "allOf", "anyOf", "oneOf", "not", "enum", "bsonType", "type",
)  # fmt: skip

_TYPES = ("bsonType", "type")
_NUMBERS = frozenset(("number", "int", "long", "double", "decimal"))
_ABOUT: dict[str, frozenset[str]] = {
    **dict.fromkeys(("multipleOf", "maximum", "minimum"), _NUMBERS),
    **dict.fromkeys(("pattern", "maxLength", "minLength"), frozenset(("string",))),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "items", "additionalItems"), frozenset(("array",))),
    **dict.fromkeys(
        ("properties", "additionalProperties", "patternProperties", "required", "minProperties", "maxProperties"),
        frozenset(("object",)),
    ),
}
"""The types that a rule applies to."""


def schema_details(schema: bytes, document: bytes, negated: bool) -> bytes:
    """Return the details of a document that does not match the schema, or, if `negated`, of one that does."""
    name: Field = ("operatorName", *from_python("$jsonSchema"))
    if negated:
        return document_from([name, ("reason", *from_python("schema matched"))])
    rules = array_value(_failures(schema, (OBJECT, document)))
    return document_from([name, *descriptions(schema), ("schemaRulesNotSatisfied", *rules)])


def _failures(schema: bytes, value: Value) -> list[Value]:
    """Return the details of each rule of a schema that a value does not satisfy."""
    rules = {name: (code, data) for name, code, data in elements(schema)}
    failures: list[Value] = []
    type_rule = next((rules[name] for name in _TYPES if name in rules), None)
    only = None if type_rule is None else _only_type(type_rule)
    for name in _ORDER:
        # If the schema requires one type, rules about other types are skipped.
        if name in rules and (only is None or only in _ABOUT.get(name, (only,))):
            details = _failure(name, rules, value)
            if details is not None:
                failures.append((OBJECT, document_from([("operatorName", *from_python(name)), *details])))
    return failures


def _only_type(types: Value) -> str | None:
    """Return the name of the one type that a value must have; None if several are allowed."""
    names = values(types[1]) if types[0] == ARRAY else [types]
    return text_of(names[0]) if len(names) == 1 else None


def _failure(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    """Return the details of one rule; None if it is satisfied."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(name, rules, value)
    companion = _SIMPLE[name][1] if name in _SIMPLE else None
    rule: list[Field] = [(name, *rules[name])]
    if companion is not None and rules.get(companion, (BOOL, b"\0"))[1] != b"\0":
        rule.append((companion, *rules[companion]))
    specified = document_from(rule)
    if _holds(specified, value):
        return None
    details: list[Field] = [("specifiedAs", OBJECT, specified)]
    if name in ("bsonType", "type"):
        kind = from_python(TYPE_NAMES[value[0]])
        return [*details, _reason("type did not match"), ("consideredValue", *value), ("consideredType", *kind)]
    if name in ("minItems", "maxItems"):
        count = from_python(len(values(value[1])))
        return [*details, _reason(_LENGTH), ("consideredValue", *value), ("numberOfItems", *count)]
    if name in ("minProperties", "maxProperties"):
        return [*details, _reason(_PROPERTIES), ("numberOfProperties", *from_python(len(elements(value[1]))))]
    if name == "required":
        required = [text_of(name_value) for name_value in values(rules[name][1])]
        return [*details, ("missingProperties", *_names(_missing(value[1], required)))]
    if name == "uniqueItems":
        duplicate = ("duplicatedValue", *_duplicate(value[1]))
        return [*details, _reason("found a duplicate item"), ("consideredValue", *value), duplicate]
    return [*details, _reason(_SIMPLE[name][0]), ("consideredValue", *value)]


def _holds(schema: bytes, value: Value) -> bool:
    inside = document_from([("v", OBJECT, schema)])
    filter_document = document_from([("$jsonSchema", OBJECT, document_from([("properties", OBJECT, inside)]))])
    return compile_filter(parse_filter(filter_document)).matches(document_from([("v", *value)]))


def _properties(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    if value[0] != OBJECT:
        return None
    failing: list[Value] = []
    for property_name, _, schema in elements(rules[name][1]):
        property_value = get_field(value[1], property_name)
        if property_value is not None and not _holds(schema, property_value):
            failing.append(_named("propertyName", property_name, schema, property_value))
    return [("propertiesNotSatisfied", *array_value(failing))] if failing else None


def _additional_properties(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    if value[0] != OBJECT:
        return None
    declared_names = {member for member, _, _ in elements(rules["properties"][1])} if "properties" in rules else set()
    patterns = (
        [member for member, _, _ in elements(rules["patternProperties"][1])] if "patternProperties" in rules else []
    )
    searches = [compile_regex(pattern, "") for pattern in patterns]
    extra = [
        member
        for member in elements(value[1])
        if member[0] not in declared_names and not any(search(member[0]) for search in searches)
    ]
    code, schema = rules[name]
    if code == BOOL:
        if schema == b"\1" or not extra:
            return None
        specified = document_from([(name, code, schema)])
        return [("specifiedAs", OBJECT, specified), ("additionalProperties", *_names([member[0] for member in extra]))]
    for member, kind, data in extra:
        if not _holds(schema, (kind, data)):
            reason = _reason("at least one additional property did not match the subschema")
            failing: Field = ("failingProperty", *from_python(member))
            return [reason, failing, ("details", *array_value(_failures(schema, (kind, data))))]
    return None


def _pattern_properties(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    if value[0] != OBJECT:
        return None
    failing: list[Value] = []
    for pattern, _, schema in elements(rules[name][1]):
        search = compile_regex(pattern, "")
        for property_name, code, data in elements(value[1]):
            if search(property_name) and not _holds(schema, (code, data)):
                head: list[Field] = [
                    ("propertyName", *from_python(property_name)),
                    ("regexMatched", *from_python(pattern)),
                    ("details", *array_value(_failures(schema, (code, data)))),
                ]
                failing.append((OBJECT, document_from(head)))
                break
    return [("details", *array_value(failing))] if failing else None


def _dependencies(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    if value[0] != OBJECT:
        return None
    failing: list[Value] = []
    for conditional, code, data in elements(rules[name][1]):
        if get_field(value[1], conditional) is None:
            continue
        head: Field = ("conditionalProperty", *from_python(conditional))
        if code == ARRAY:
            missing = _missing(value[1], [text_of(name_value) for name_value in values(data)])
            if missing:
                failing.append((OBJECT, document_from([head, ("missingProperties", *_names(missing))])))
        elif not _holds(data, value):
            failing.append((OBJECT, document_from([head, ("details", *array_value(_failures(data, value)))])))
    return [("failingDependencies", *array_value(failing))] if failing else None


def _items(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    if value[0] != ARRAY:
        return None
    code, data = rules[name]
    members = values(value[1])
    if code == OBJECT:
        return _first_failing(members, 0, data, "At least one item did not match the sub-schema")
    failing = [
        (OBJECT, document_from([("itemIndex", *int64_value(index)), ("details", *array_value(_failures(raw, member)))]))
        for index, ((_, raw), member) in enumerate(zip(values(data), members, strict=False))
        if not _holds(raw, member)
    ]
    return [("details", *array_value(failing))] if failing else None


def _additional_items(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    items = rules.get("items")
    if value[0] != ARRAY or items is None or items[0] != ARRAY:
        return None
    start = len(values(items[1]))
    members = values(value[1])
    code, data = rules[name]
    if code == OBJECT:
        reason = "At least one additional item did not match the sub-schema"
        return _first_failing(members, start, data, reason)
    if data == b"\1" or len(members) <= start:
        return None
    specified = document_from([(name, code, data)])
    extra: Field = ("additionalItems", *array_value(members[start:]))
    return [("specifiedAs", OBJECT, specified), _reason("found additional items"), extra]


def _first_failing(members: Sequence[Value], start: int, schema: bytes, reason: str) -> list[Field] | None:
    for index, member in enumerate(members[start:], start):
        if not _holds(schema, member):
            details: Field = ("details", *array_value(_failures(schema, member)))
            return [_reason(reason), ("itemIndex", *from_python(index)), details]
    return None


def _branches(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    schemas = [raw for _, raw in values(rules[name][1])]
    outcomes = [_holds(raw, value) for raw in schemas]
    if all(outcomes) if name == "allOf" else any(outcomes) and (name == "anyOf" or outcomes.count(True) == 1):
        return None
    if name == "oneOf" and any(outcomes):
        matching = [index for index, holds in enumerate(outcomes) if holds]
        return [_reason("more than one subschema matched"), ("matchingSchemaIndexes", *from_python(matching))]
    failing = [_named("index", index, raw, value) for index, raw in enumerate(schemas) if not outcomes[index]]
    return [("schemasNotSatisfied", *array_value(failing))]


def _not(name: str, rules: dict[str, Value], value: Value) -> list[Field] | None:
    return [_reason("child expression matched")] if _holds(rules[name][1], value) else None


_SPECIAL: dict[str, Callable[[str, dict[str, Value], Value], list[Field] | None]] = {
    "properties": _properties,
    "additionalProperties": _additional_properties,
    "patternProperties": _pattern_properties,
    "dependencies": _dependencies,
    "items": _items,
    "additionalItems": _additional_items,
    "allOf": _branches,
    "anyOf": _branches,
    "oneOf": _branches,
    "not": _not,
}


def _named(field: str, name: str | int, schema: bytes, value: Value) -> Value:
    """Return the failures of a value under a sub-schema, with the sub-schema's title and description."""
    details: Field = ("details", *array_value(_failures(schema, value)))
    return OBJECT, document_from([(field, *from_python(name)), *descriptions(schema), details])


def descriptions(schema: bytes) -> Iterator[Field]:
    """Yield the title and the description of a schema."""
    for name in ("title", "description"):
        text = get_field(schema, name)
        if text is not None and text[0] == STRING:
            yield name, *text


def _missing(raw: bytes, required: Sequence[str]) -> list[str]:
    """Return the fields of `required` that a document lacks."""
    return [name for name in required if get_field(raw, name) is None]


def _duplicate(raw: bytes) -> Value:
    members = values(raw)
    for at, member in enumerate(members):
        if any(compare(member, other) == 0 for other in members[:at]):
            return member
    raise AssertionError("an array that is not unique has a duplicate")


def _names(names: Sequence[str]) -> Value:
    return from_python(list(names))


def _reason(text: str) -> Field:
    return ("reason", *from_python(text))
