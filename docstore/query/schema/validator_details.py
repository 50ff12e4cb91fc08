"""Details of a validator mismatch, which the error of a rejected write carries.

The shape is MongoDB's: a tree of `{operatorName, specifiedAs, reason, consideredValue}` for conditions on fields, with
`clausesNotSatisfied` (or, below a negation, `clausesSatisfied`) for `$and`, `$or` and `$nor`, and `details` for `$not`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from docstore.bson import array_value, document_from, elements, from_python, get_field, values
from docstore.bson.walk import ARRAY, OBJECT, REGEX, Value
from docstore.kernel.match.predicate import Predicate
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import is_operator_document, parse_filter
from docstore.query.schema.failure_details import descriptions, schema_details
from docstore.query.value.values import TYPE_NAMES

_REASONS = {
    "$exists": ("path does not exist", "path does exist"),
    "$type": ("type did not match", "type did match"),
    "$mod": ("$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder"),
    "$regex": ("regular expression did not match", "regular expression did match"),
    "$size": ("array length was not equal to given size", "array length was equal to given size"),
    "$all": ("array did not contain all specified values", "array did contain all specified values"),
    "$elemMatch": ("array did not satisfy the child predicate", "array did satisfy the child predicate"),
    "$in": ("no matching value found in array", "matching value found in array"),
    "$nin": ("matching value found in array", "no matching value found in array"),
    "$ne": ("comparison succeeded", "comparison failed"),
    "$expr": ("expression did not match", "expression did match"),
}
"""The reason why a condition fails, and, under a negation, why it holds."""
_BITWISE = ("bitwise operator failed to match", "bitwise operator matched successfully")
_COMPARISON = ("comparison failed", "comparison succeeded")
_NUMBER_NAMES = ("decimal", "double", "int", "long")
_EXPECTED: dict[str, tuple[str, ...]] = {
    "$mod": _NUMBER_NAMES,
    "$regex": ("regex", "string", "symbol"),
    "$size": ("array",),
    "$elemMatch": ("array",),
}
_OF_ARRAYS = frozenset(("$size", "$all", "$elemMatch"))
"""Operators that test an array as a whole."""
_BRANCHES = ("$and", "$or", "$nor")


@dataclass(frozen=True, slots=True)
class _Leaf:
    operator: str
    specified: bytes
    path: str | None
    argument: Value
    predicate: Predicate

    def holds(self, document: bytes) -> bool:
        return self.predicate.matches(document)

    def details(self, document: bytes, negated: bool) -> bytes:
        if self.operator == "$jsonSchema":
            return schema_details(self.argument[1], document, negated)
        mismatch_reason, match_reason = _REASONS.get(
            self.operator, _BITWISE if self.operator.startswith("$bits") else _COMPARISON
        )
        considered = self._considered(document)
        if self.operator == "$exists" and self.argument[1] == b"\0":
            mismatch_reason, match_reason = match_reason, mismatch_reason
        reason, extra = match_reason if negated else mismatch_reason, self._considered_fields(considered)
        if self.operator == "$expr":
            extra = [("expressionResult", *from_python(negated))]
        elif self.operator == "$exists":
            extra = []
        elif self.operator == "$all" and not values(self.argument[1]):
            reason, extra = "expression always evaluates to false", []
        elif considered is None:
            reason = "field was missing"
        elif not negated:
            mismatch = self._mismatch(considered)
            if mismatch:
                reason, extra = "type did not match", [*mismatch, *extra]
        return document_from(
            [
                ("operatorName", *from_python(self.operator)),
                ("specifiedAs", OBJECT, self.specified),
                ("reason", *from_python(reason)),
                *extra,
            ]
        )

    def _considered(self, document: bytes) -> list[Value] | None:
        """Return the values at the path; None if there are none."""
        if self.path is None:
            return None
        parts = self.path.split(".")
        path_values = list(_values_at((OBJECT, document), parts, self.operator not in _OF_ARRAYS))
        return path_values if path_values or any(_values_at((OBJECT, document), parts, False)) else None

    def _considered_fields(self, considered: Sequence[Value] | None) -> list[tuple[str, int, bytes]]:
        if considered is None:
            return []
        is_single = len(considered) == 1
        fields = [("consideredValue", *considered[0]) if is_single else ("consideredValues", *array_value(considered))]
        if self.operator == "$type":
            fields += _type_fields(considered)
        return fields

    def _mismatch(self, considered: Sequence[Value]) -> list[tuple[str, int, bytes]]:
        """Return the details if no value at the path has a type that the operator tests; else an empty list."""
        expected = _EXPECTED.get(self.operator)
        if self.operator.startswith("$bits"):
            expected = ("binData", *_NUMBER_NAMES)
        if expected is None or any(TYPE_NAMES.get(code) in expected for code, _ in considered):
            return []
        if len(expected) == 1:
            return [*_type_fields(considered), ("expectedType", *from_python(expected[0]))]
        return [*_type_fields(considered), ("expectedTypes", *from_python(list(expected)))]


@dataclass(frozen=True, slots=True)
class _Branch:
    operator: str
    children: tuple[_Node, ...]

    def holds(self, document: bytes) -> bool:
        outcomes = (child.holds(document) for child in self.children)
        if self.operator == "$and":
            return all(outcomes)
        return any(outcomes) == (self.operator == "$or")

    def details(self, document: bytes, negated: bool) -> bytes:
        # A $nor fails for the clauses that hold.
        satisfied = negated != (self.operator == "$nor")
        clauses: list[Value] = []
        for index, child in enumerate(self.children):
            if child.holds(document) == satisfied:
                fields: list[tuple[str, int, bytes]] = [("index", *from_python(index))]
                if isinstance(child, _Leaf) and child.operator == "$jsonSchema":
                    fields += descriptions(child.argument[1])
                fields.append(("details", OBJECT, child.details(document, satisfied)))
                clauses.append((OBJECT, document_from(fields)))
        name = "clausesSatisfied" if satisfied else "clausesNotSatisfied"
        return document_from([("operatorName", *from_python(self.operator)), (name, *array_value(clauses))])


@dataclass(frozen=True, slots=True)
class _Negation:
    child: _Node

    def holds(self, document: bytes) -> bool:
        return not self.child.holds(document)

    def details(self, document: bytes, negated: bool) -> bytes:
        inner = self.child.details(document, not negated)
        return document_from([("operatorName", *from_python("$not")), ("details", OBJECT, inner)])


_Node = _Leaf | _Branch | _Negation


def failure_details(validator: bytes, document: bytes, query_context: QueryContext = PLAIN) -> bytes:
    """Return the details of a document that does not match the validator, which is a valid filter."""
    return _node_of(validator, query_context).details(document, False)


def _node_of(raw: bytes, query_context: QueryContext) -> _Node:
    children: list[_Node] = []
    for name, code, data in elements(raw):
        if name in _BRANCHES:
            children.append(_Branch(name, tuple(_node_of(clause, query_context) for _, clause in values(data))))
        elif name.startswith("$"):
            if name != "$comment":
                children.append(_leaf(name, None, (code, data), [(name, code, data)], query_context))
        else:
            children += _on_field(name, (code, data), query_context)
    return _together(children)


def _together(children: Sequence[_Node]) -> _Node:
    return children[0] if len(children) == 1 else _Branch("$and", tuple(children))


def _on_field(path: str, value: Value, query_context: QueryContext) -> Iterator[_Node]:
    """Yield the conditions on one field: one for each operator, `$options` with its `$regex`."""
    if value[0] != OBJECT or not is_operator_document(value[1]):
        yield _leaf("$regex" if value[0] == REGEX else "$eq", path, value, [(path, *value)], query_context)
        return
    for name, code, data in elements(value[1]):
        if name == "$not":
            yield _Negation(_together(list(_on_field(path, (code, data), query_context))))
        elif name != "$options":
            operator_fields = [(name, code, data)]
            options = get_field(value[1], "$options") if name == "$regex" else None
            if options is not None:
                operator_fields.append(("$options", *options))
            yield _leaf(name, path, (code, data), [(path, OBJECT, document_from(operator_fields))], query_context)


def _leaf(
    operator: str,
    path: str | None,
    argument: Value,
    specified: Sequence[tuple[str, int, bytes]],
    query_context: QueryContext,
) -> _Leaf:
    raw = document_from(specified)
    return _Leaf(operator, raw, path, argument, compile_filter(parse_filter(raw, query_context=query_context)))


def _values_at(value: Value, parts: Sequence[str], expand: bool) -> Iterator[Value]:
    """Yield the values at a path through array elements; with `expand` also the elements of an array at its end."""
    code, data = value
    if not parts:
        if code == ARRAY and expand:
            yield from values(data)
        else:
            yield value
    elif code == OBJECT:
        inner = get_field(data, parts[0])
        if inner is not None:
            yield from _values_at(inner, parts[1:], expand)
    elif code == ARRAY:
        members = values(data)
        if parts[0].isdigit() and int(parts[0]) < len(members):
            yield from _values_at(members[int(parts[0])], parts[1:], expand)
        for member in members:
            if member[0] == OBJECT:
                yield from _values_at(member, parts, expand)


def _type_fields(considered: Sequence[Value]) -> list[tuple[str, int, bytes]]:
    names = sorted({TYPE_NAMES[code] for code, _ in considered})
    if not names:
        return []
    if len(names) == 1:
        return [("consideredType", *from_python(names[0]))]
    return [("consideredTypes", *from_python(names))]
