"""Validation of a document's `_id`."""

from __future__ import annotations

from docstore.bson.walk import ARRAY, OBJECT, REGEX, UNDEFINED, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.value.values import type_name


def check_id(value: Value) -> None:
    """Raise an error for a value that cannot be an `_id`: InvalidIdField, DollarPrefixedFieldName at any depth."""
    if value[0] in (ARRAY, REGEX, UNDEFINED):
        raise CommandError(Code.InvalidIdField, f"The '_id' value cannot be of type {type_name(value)}")
    if value[0] == OBJECT:
        _check_no_operators(value[1])


def _check_no_operators(raw: bytes) -> None:
    for name, code, data in elements(raw):
        if name.startswith("$"):
            raise CommandError(
                Code.DollarPrefixedFieldName, f"_id fields may not contain '$'-prefixed fields: {name} is not allowed"
            )
        if code in (OBJECT, ARRAY):
            _check_no_operators(data)
