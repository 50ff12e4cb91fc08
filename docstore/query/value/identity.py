"""Validation of a document's `_id`."""

from __future__ import annotations

from docstore.bson.walk import ARRAY, OBJECT, REGEX, STRING, UNDEFINED, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.value.values import type_name


def check_id(value: Value) -> None:
    """Raise an error for a value that cannot be an `_id`: InvalidIdField, DollarPrefixedFieldName at any depth.

    Objects may begin as references (DBRef) do: `$ref` a string, `$id`, and then perhaps `$db` a string.
    What `$id` holds is not looked at.
    """
    if value[0] in (ARRAY, REGEX, UNDEFINED):
        raise CommandError(Code.InvalidIdField, f"The '_id' value cannot be of type {type_name(value)}")
    if value[0] == OBJECT:
        _check_no_operators(value[1])


def _check_no_operators(raw: bytes) -> None:
    fields = elements(raw)
    for name, code, data in fields[_reference_length(fields) :]:
        if name.startswith("$"):
            raise CommandError(
                Code.DollarPrefixedFieldName, f"_id fields may not contain '$'-prefixed fields: {name} is not allowed"
            )
        if code in (OBJECT, ARRAY):
            _check_no_operators(data)


def _reference_length(fields: list[tuple[str, int, bytes]]) -> int:
    """Return how many fields in front make up a reference: 2 or 3; 0 for none."""
    if [name for name, _, _ in fields[:2]] != ["$ref", "$id"] or fields[0][1] != STRING:
        return 0
    return 3 if len(fields) > 2 and fields[2][0] == "$db" and fields[2][1] == STRING else 2
