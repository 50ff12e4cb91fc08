"""Field dependencies of an expression, derived from its specification."""

from __future__ import annotations

from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements
from docstore.query.value.values import text_of

_WHOLE_DOCUMENT = frozenset(("$function", "$getField", "$meta", "$rand", "$setField", "$unsetField"))
"""Operators whose value depends on more than the paths in their specification, or on none of them."""


def fields_of(value: Value) -> set[str] | None:
    """Return a superset of the top-level fields that an expression reads; None if it may read any."""
    code, data = value
    if code == STRING:
        text = text_of(value)
        if text.startswith("$$"):
            return None if top(text[2:]) in ("CURRENT", "ROOT") else set()
        return {top(text[1:])} if text.startswith("$") else set()
    if code not in (ARRAY, OBJECT):
        return set()
    field_names: set[str] = set()
    for name, inner, raw in elements(data):
        fields = None if name in _WHOLE_DOCUMENT else fields_of((inner, raw))
        if fields is None:
            return None
        field_names |= fields
    return field_names


def top(path: str) -> str:
    """Return the first part of a path."""
    return path.partition(".")[0]
