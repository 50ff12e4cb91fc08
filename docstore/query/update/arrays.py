"""Operators on arrays: `$push`, `$addToSet`, `$pop`, `$pull`, `$pullAll`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from docstore.bson.build import array_value, document_from
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, REGEX, Value, elements, get_field, values
from docstore.errors import Code, CommandError
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import is_operator_document, parse_filter, parse_operators, under
from docstore.query.filter.path_operators import parse_equality
from docstore.query.update.array_filters import within_update
from docstore.query.update.modifier import Blocked, Situation
from docstore.query.value.long_lists import paced
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.values import NUMBERS, integral_of, type_name


@dataclass(frozen=True, slots=True)
class Push:
    """`$push`: insert at `position` (None: at the end, negative: from the end), then sort, then keep a slice.

    An insert or a sort counts as a modification even if the array does not change.
    """

    members: tuple[Value, ...]
    position: int | None = None
    sort: ArraySort | None = None
    keep: int | None = None
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if current is None:
            members: list[Value] = []
        elif current[0] == ARRAY:
            members = values(current[1])
        else:
            raise CommandError(
                Code.BadValue,
                f"The field '{path}' must be an array but is of type {type_name(current)} in document"
                f" {situation.identity()}",
            )
        acts = bool(self.members) or (self.sort is not None and bool(members))
        position = len(members) if self.position is None else self.position
        members[position:position] = self.members
        if self.sort is not None:
            members = self.sort.apply(members)
        if self.keep is not None:
            members = members[: self.keep] if self.keep >= 0 else members[self.keep :]
        situation.modified = situation.modified or acts
        return array_value(members)


@dataclass(frozen=True, slots=True)
class ArraySort:
    """The `$sort` of a `$push`: whole values in `direction`, or documents by a pattern."""

    direction: int = 1
    pattern: KeyPattern | None = None
    ordering: Ordering = BINARY

    def apply(self, members: list[Value]) -> list[Value]:
        if self.pattern is None:
            return sorted(members, key=self.ordering.key, reverse=self.direction < 0)
        pattern = self.pattern
        return sorted(members, key=lambda member: pattern.sort_key(_as_document(member)))


def _as_document(member: Value) -> bytes:
    return member[1] if member[0] == OBJECT else EMPTY_DOCUMENT


def parse_push(value: Value, query_context: QueryContext) -> Push:
    """Parse a value to add, or `{$each: [...], $position, $slice, $sort}`."""
    if value[0] != OBJECT or get_field(value[1], "$each") is None:
        return Push((value,))
    clauses = option_fields("$push", value[1], _repeated_clause)
    for name in clauses:
        if name not in ("$each", "$position", "$slice", "$sort"):
            raise CommandError(Code.BadValue, f"Unrecognized clause in $push: {name}")
    additions = clauses["$each"]
    if additions[0] != ARRAY:
        raise CommandError(
            Code.BadValue, f"The argument to $each in $push must be an array but it was of type: {type_name(additions)}"
        )
    return Push(
        tuple(values(additions[1])),
        _whole_number(clauses, "$position"),
        _parse_sort(clauses["$sort"], query_context.ordering) if "$sort" in clauses else None,
        _whole_number(clauses, "$slice"),
    )


def _repeated_clause(name: str) -> CommandError:
    return CommandError(Code.BadValue, f"Only one {name} is supported.")


def _whole_number(clauses: dict[str, Value], name: str) -> int | None:
    if name not in clauses:
        return None
    number = integral_of(clauses[name])
    if number is None or not LONG_MIN <= number <= LONG_MAX:
        raise CommandError(
            Code.BadValue,
            f"The value for {name} must be an integer value but was given type: {type_name(clauses[name])}",
        )
    return number


def _parse_sort(value: Value, ordering: Ordering) -> ArraySort:
    if value[0] in NUMBERS:
        direction = _direction(value, "The $sort element value must be either 1 or -1")
        return ArraySort(direction, ordering=ordering)
    if value[0] != OBJECT:
        raise CommandError(
            Code.BadValue,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
        )
    fields: list[tuple[str, int]] = []
    for name, code, data in elements(value[1]):
        if not name:
            raise CommandError(Code.BadValue, "The sort field cannot be empty")
        if not all(name.split(".")):
            raise CommandError(Code.BadValue, f"The sort field is a dotted field but has an empty part: {name}")
        fields.append((name, _direction((code, data), "The sort element value must be either 1 or -1")))
    if not fields:
        raise CommandError(Code.BadValue, "The sort pattern is empty when it should be a set of fields.")
    return ArraySort(pattern=KeyPattern(fields, ordering.fold))


def _direction(value: Value, message: str) -> int:
    direction = integral_of(value)
    if direction not in (1, -1):
        raise CommandError(Code.BadValue, message)
    return direction


@dataclass(frozen=True, slots=True)
class AddToSet:
    """`$addToSet`: add the members that no element equals, each once."""

    members: tuple[Value, ...]
    key_of: Callable[[Value], bytes]
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if current is not None and current[0] != ARRAY:
            raise CommandError(
                Code.BadValue,
                f"Cannot apply $addToSet to non-array field. Field named '{path.rsplit('.', 1)[-1]}' has non-array"
                f" type {type_name(current)}",
            )
        members = [] if current is None else values(current[1])
        key_of = self.key_of
        present = {key_of(member) for member in paced(members)}
        added = 0
        for member in paced(self.members):
            key = key_of(member)
            if key not in present:
                present.add(key)
                members.append(member)
                added += 1
        return current if current is not None and not added else array_value(members)


def parse_add_to_set(value: Value, query_context: QueryContext) -> AddToSet:
    """Parse a value to add, or `{$each: [...]}`."""
    fields = elements(value[1]) if value[0] == OBJECT else []
    if not fields or fields[0][0] != "$each":
        return AddToSet((value,), query_context.ordering.key)
    _, code, data = fields[0]
    if code != ARRAY:
        raise CommandError(
            Code.TypeMismatch,
            f"The argument to $each in $addToSet must be an array but it was of type {type_name((code, data))}",
        )
    if len(fields) > 1:
        raise CommandError(Code.BadValue, f"Found unexpected fields after $each in $addToSet: {display(value)}")
    return AddToSet(tuple(values(data)), query_context.ordering.key)


@dataclass(frozen=True, slots=True)
class Pop:
    """`$pop`: remove the last element, or the first."""

    first: bool
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_TRAVERSE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if current is None:
            return None
        if current[0] != ARRAY:
            raise CommandError(
                Code.TypeMismatch, f"Path '{path}' contains an element of non-array type '{type_name(current)}'"
            )
        members = values(current[1])
        return array_value(members[1:] if self.first else members[:-1])


def parse_pop(path: str, value: Value) -> Pop:
    if value[0] not in NUMBERS:
        raise CommandError(Code.FailedToParse, f"Expected a number in: {path}: {display(value)}")
    number = integral_of(value)
    if number is None:
        raise CommandError(Code.FailedToParse, f"Expected an integer: {path}: {display(value)}")
    if number not in (1, -1):
        raise CommandError(Code.FailedToParse, f"$pop expects 1 or -1, found: {number}")
    return Pop(number == -1)


@dataclass(frozen=True, slots=True)
class Pull:
    """`$pull` and `$pullAll`: remove the elements for which `unwanted` holds."""

    unwanted: Callable[[Value], bool]
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_TRAVERSE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if current is None:
            return None
        if current[0] != ARRAY:
            raise CommandError(Code.BadValue, "Cannot apply $pull to a non-array value")
        members = values(current[1])
        remaining = [member for member in paced(members) if not self.unwanted(member)]
        return current if len(remaining) == len(members) else array_value(remaining)


_ABOUT_DOCUMENTS = frozenset(
    (
        "$alwaysFalse",
        "$alwaysTrue",
        "$and",
        "$comment",
        "$expr",
        "$jsonSchema",
        "$nor",
        "$not",
        "$or",
        "$sampleRate",
        "$text",
        "$where",
    )
)
"""Operators of `$pull` that test elements as documents."""


def parse_pull(value: Value, query_context: QueryContext) -> Pull:
    """Parse a condition on elements: operators on the value, a filter on embedded documents, a regex, or a value."""
    query_context = within_update(query_context)
    if value[0] == OBJECT and not (is_operator_document(value[1]) and _names_value_operator(value[1])):
        predicate = compile_filter(parse_filter(value[1], query_context=query_context))
        return Pull(lambda member: member[0] == OBJECT and predicate.matches(member[1]))
    if value[0] == OBJECT:
        predicate = compile_filter(under(query_context, parse_operators("a", value[1], query_context)))
    elif value[0] == REGEX:
        predicate = compile_filter(parse_equality("a", value))
    else:
        key_of = query_context.ordering.key
        target_key = key_of(value)
        return Pull(lambda member: key_of(member) == target_key)
    return Pull(lambda member: predicate.matches(document_from([("a", *member)])))


def _names_value_operator(raw: bytes) -> bool:
    return elements(raw)[0][0] not in _ABOUT_DOCUMENTS


def parse_pull_all(value: Value, query_context: QueryContext) -> Pull:
    if value[0] != ARRAY:
        raise CommandError(Code.BadValue, f"$pullAll requires an array argument but was given a {type_name(value)}")
    key_of = query_context.ordering.key
    unwanted = set(map(key_of, paced(values(value[1]))))
    return Pull(lambda member: key_of(member) in unwanted)
