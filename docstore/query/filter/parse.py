"""Parsing of query filters: raw documents to typed trees (`docstore.query.filter.tree`).

Values keep their bytes. Unknown operators get MongoDB's BadValue, known but unsupported ones NotImplemented
(`docstore.query.unsupported`). Codes follow MongoDB 6.0.
"""

from __future__ import annotations

from dataclasses import replace

from docstore.bson.allowance import spend
from docstore.bson.walk import ARRAY, OBJECT, REGEX, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.bits import BIT_OPERATORS
from docstore.query.filter.path_operators import FIELD_OPERATORS, parse_equality, parse_regex_operator
from docstore.query.filter.text_operator import parse_text
from docstore.query.filter.tree import (
    MATCH_ALL,
    Always,
    And,
    Comparison,
    DocumentTest,
    ElemMatchObject,
    ElemMatchValue,
    Filter,
    In,
    Nor,
    Not,
    Op,
    Or,
    collated,
    conjunction,
)
from docstore.query.filter.where import parse_expression_test, parse_where
from docstore.query.geo.operators import GEO_OPERATORS, NEAR, parse_geo
from docstore.query.pausing import PAUSED, PAUSING
from docstore.query.schema.json_schema import parse_schema
from docstore.query.unsupported import not_supported
from docstore.query.value.notation import display
from docstore.query.value.paths import MAX_PARTS, REFERENCE_FIELDS
from docstore.query.value.values import NUMBERS, integral_of, number_of

_LONG = 512
"""Least bytes of a filter whose parsing may take a while."""

_PER_FIELD = 512
"""Units of work charged for parsing the condition on a field."""

_ONLY_AT_TOP = frozenset(("$expr", "$sampleRate", "$text", "$where"))
_ABOUT_DOCUMENTS = _ONLY_AT_TOP | {
    "$alwaysFalse",
    "$alwaysTrue",
    "$and",
    "$comment",
    "$jsonSchema",
    "$nor",
    "$or",
    *REFERENCE_FIELDS,
}
"""Operators that make an `$elemMatch` one on embedded documents."""

_ON_PATHS = frozenset((*BIT_OPERATORS, *FIELD_OPERATORS, *GEO_OPERATORS, "$all", "$elemMatch", "$options", "$regex"))
"""Operators that `$all` rejects as members; a document that begins with another name is a plain value there."""


def parse_filter(raw: bytes, *, query_context: QueryContext = PLAIN) -> Filter:
    """Return the tree of a filter document. An empty document matches everything."""
    if len(raw) < _LONG:
        return _parsed(raw, query_context)
    level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
    try:
        return _parsed(raw, query_context)
    finally:
        PAUSING.level = level


def _parsed(raw: bytes, query_context: QueryContext) -> Filter:
    children: list[Filter] = []
    for name, code, data in elements(raw):
        value = (code, data)
        if name.startswith("$") and name not in REFERENCE_FIELDS:
            child = _top_level(name, value, query_context)
            if child is not None:
                children.append(child)
        else:
            children.append(parse_field(name, value, query_context))
    if not children:
        return MATCH_ALL
    tree = conjunction(children)
    return under(query_context, tree)


def under(query_context: QueryContext, tree: Filter) -> Filter:
    """Return the filter with the collation of the query context."""
    return tree if query_context.collation is None else collated(tree, query_context.collation)


def parse_field(path: str, value: Value, query_context: QueryContext = PLAIN) -> Filter:
    """Return the condition on one field: an equality, a regular expression or a document of operators."""
    spend(_PER_FIELD)
    if path.count(".") >= MAX_PARTS:
        raise CommandError(5729100, "FieldPath is too long")
    if value[0] == OBJECT and is_operator_document(value[1]):
        return parse_operators(path, value[1], query_context)
    return parse_equality(path, value)


def parse_operators(path: str, raw: bytes, query_context: QueryContext = PLAIN) -> Filter:
    """Return the condition of a document of operators (`{$gt: 1, $lt: 5}`) on one path."""
    children: list[Filter] = []
    fields = elements(raw)
    if any(name in GEO_OPERATORS for name, _, _ in fields):
        for name, _, _ in fields:
            if name in query_context.excluded & NEAR:
                raise excluded_operator(name)
        return parse_geo(path, fields)
    regex_done = False
    for name, code, data in fields:
        value = (code, data)
        if name in ("$regex", "$options"):
            if not regex_done:
                children.append(parse_regex_operator(path, fields))
                regex_done = True
        elif name == "$not":
            children.append(_parse_not(path, value, query_context))
        elif name == "$elemMatch":
            children.append(parse_elem_match(path, value, query_context))
        elif name == "$all":
            children.append(_parse_all(path, value, query_context))
        elif name in BIT_OPERATORS:
            children.append(BIT_OPERATORS[name](path, value))
        elif name in FIELD_OPERATORS:
            children.append(FIELD_OPERATORS[name](path, value))
        else:
            raise _unknown_operator(name)
    return conjunction(children)


def is_operator_document(raw: bytes) -> bool:
    """True if a document used as a value holds operators: its first name starts with `$` and it is not a DBRef."""
    names = [name for name, _, _ in elements(raw)]
    if not names or not names[0].startswith("$"):
        return False
    return not (names[0] in REFERENCE_FIELDS and "$ref" in names and "$id" in names)


def _top_level(name: str, value: Value, query_context: QueryContext) -> Filter | None:
    if name in query_context.excluded:
        raise excluded_operator(name)
    if query_context.nested and name in _ONLY_AT_TOP:
        raise CommandError(Code.BadValue, f"{name} can only be applied to the top-level document")
    match name:
        case "$and":
            return conjunction(list(_clauses(name, value, query_context)))
        case "$or":
            return _disjunction(_clauses(name, value, query_context))
        case "$nor":
            return Nor(_clauses(name, value, query_context))
        case "$alwaysTrue" | "$alwaysFalse":
            if integral_of(value) != 1:
                raise CommandError(Code.FailedToParse, f"{name} must be an integer value of 1")
            return Always(name == "$alwaysTrue")
        case "$comment":
            return None
        case "$expr" if query_context.expressions is not None:
            return parse_expression_test(query_context.expressions, value, query_context)
        case "$where":
            return parse_where(value, query_context)
        case "$text":
            return parse_text(value)
        case "$sampleRate":
            return _parse_sample_rate(value, query_context)
        case "$jsonSchema":
            return DocumentTest(parse_schema(value).matches, name, value)
        case _:
            raise _unknown_at_top(name)


def _parse_sample_rate(value: Value, query_context: QueryContext) -> Filter:
    """Return a test that is true for about this share of the documents, by the query context's random numbers."""
    if value[0] not in NUMBERS:
        raise CommandError(Code.BadValue, "argument to $sampleRate must be a numeric type")
    rate = number_of(value)
    if not 0 <= rate <= 1:
        raise CommandError(Code.BadValue, "numeric argument to $sampleRate must be in [0, 1]")
    if rate in (0, 1):
        return Always(rate == 1)
    rng = query_context.rng
    if rng is None:
        raise not_supported("query operator", "$sampleRate")
    return DocumentTest(lambda document: rng() < rate, "$sampleRate", value)


def excluded_operator(name: str) -> CommandError:
    """Return the error for an operator that this kind of filter excludes."""
    if name in NEAR:
        return CommandError(5626500, "$geoNear, $near, and $nearSphere are not allowed in this context")
    code = Code.QueryFeatureNotAllowed if name in ("$expr", "$jsonSchema") else Code.BadValue
    return CommandError(code, f"{name} is not allowed in this context")


def _unknown_at_top(name: str) -> CommandError:
    if name == "$expr":
        return not_supported("query operator", name)
    if name == "$not":
        hint = "If you are trying to negate an entire expression, use $nor."
    else:
        hint = "If you have a field name that starts with a '$' symbol, consider using $getField or $setField."
    return CommandError(Code.BadValue, f"unknown top level operator: {name}. {hint}")


def _unknown_operator(name: str) -> CommandError:
    if name == "$where":
        return CommandError(Code.BadValue, "$where cannot be applied to a field")
    return CommandError(Code.BadValue, f"unknown operator: {name}")


def _clauses(name: str, value: Value, query_context: QueryContext) -> tuple[Filter, ...]:
    if value[0] != ARRAY:
        raise CommandError(Code.BadValue, f"{name} must be an array")
    clauses = values(value[1])
    if not clauses:
        raise CommandError(Code.BadValue, "$and/$or/$nor must be a nonempty array")
    if any(code != OBJECT for code, _ in clauses):
        raise CommandError(Code.BadValue, "$or/$and/$nor entries need to be full objects")
    return tuple(parse_filter(raw, query_context=query_context) for _, raw in clauses)


def _disjunction(clauses: tuple[Filter, ...]) -> Filter:
    """Return the clauses as one node; equalities on one path become one `In`.

    Clauses that all have the same value stay a disjunction, because an upsert must not take that value as fixed.
    """
    if len(clauses) == 1:
        return clauses[0]
    first = clauses[0]
    if not _is_value(first, first) or not all(_is_value(clause, first) for clause in clauses) or len(set(clauses)) == 1:
        return Or(clauses)
    listed = [clause for clause in clauses if isinstance(clause, Comparison)]
    rules = next((clause.collation for clause in listed if clause.collation is not None), None)
    return In(listed[0].path, tuple(clause.value for clause in listed), (), rules)


def _is_value(clause: Filter, first: Filter) -> bool:
    """True if a clause is an equality at the path of the first one, other than with a regular expression."""
    return (
        isinstance(clause, Comparison)
        and isinstance(first, Comparison)
        and clause.op is Op.EQ
        and clause.path == first.path
        and clause.value[0] != REGEX
    )


def _parse_not(path: str, value: Value, query_context: QueryContext) -> Filter:
    if value[0] == REGEX:
        return Not(parse_equality(path, value))
    if value[0] != OBJECT:
        raise CommandError(Code.BadValue, "$not needs a regex or a document")
    if not elements(value[1]):
        raise CommandError(Code.BadValue, "$not cannot be empty")
    return Not(parse_operators(path, value[1], query_context))


def parse_elem_match(path: str, value: Value, query_context: QueryContext = PLAIN) -> Filter:
    """Return a condition on single elements of the array at the path."""
    if value[0] != OBJECT:
        raise CommandError(Code.BadValue, "$elemMatch needs an Object")
    raw = value[1]
    if is_operator_document(raw) and elements(raw)[0][0] not in _ABOUT_DOCUMENTS:
        return ElemMatchValue(path, parse_operators("", raw, query_context))
    return ElemMatchObject(path, parse_filter(raw, query_context=replace(query_context, nested=True)))


def _parse_all(path: str, value: Value, query_context: QueryContext) -> Filter:
    if value[0] != ARRAY:
        raise CommandError(Code.BadValue, "$all needs an array")
    items = values(value[1])
    if not items:
        return Always(False)
    elem_matches = [_is_elem_match(item) for item in items]
    if elem_matches[0]:
        if not all(elem_matches):
            raise CommandError(Code.BadValue, "$all/$elemMatch has to be consistent")
        return conjunction([parse_elem_match(path, _only_value(item), query_context) for item in items])
    for item in items:
        if item[0] == OBJECT and is_operator_document(item[1]) and elements(item[1])[0][0] in _ON_PATHS:
            raise CommandError(Code.BadValue, f"no $ expressions in $all, found {display(item)}")
    return (
        And(tuple(parse_equality(path, item) for item in items)) if len(items) > 1 else parse_equality(path, items[0])
    )


def _is_elem_match(item: Value) -> bool:
    if item[0] != OBJECT:
        return False
    fields = elements(item[1])
    return bool(fields) and fields[0][0] == "$elemMatch"


def _only_value(item: Value) -> Value:
    _, code, data = elements(item[1])[0]
    return code, data
