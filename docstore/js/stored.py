"""The functions that a database keeps for its scripts, in `system.js`: `{_id: name, value: function}`."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.bson import document_from, elements, get_field
from docstore.bson.walk import CODE_WITH_SCOPE, STRING
from docstore.errors import CommandError

COLLECTION = "system.js"


def functions_of(documents: Iterable[bytes]) -> bytes | None:
    """A document of them all by name; None where there are none."""
    fields = []
    for raw in documents:
        name, value = get_field(raw, "_id"), get_field(raw, "value")
        if name is not None and name[0] == STRING and value is not None:
            fields.append((name[1][4:-1].decode(), *value))
    return document_from(fields) if fields else None


def checked(functions: bytes) -> bytes:
    """The document itself. Errors: 4546000 for code with a scope in it."""
    for name, kind, _ in elements(functions):
        if kind == CODE_WITH_SCOPE:
            raise CommandError(
                4546000, f"the function {name} of {COLLECTION} is code with a scope, which is not supported there"
            )
    return functions
