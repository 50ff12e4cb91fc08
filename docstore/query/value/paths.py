"""Dotted field paths: the rules for their parts in sorts, projections and expressions, and for array positions."""

from __future__ import annotations

from docstore.errors import Code, CommandError

MAX_PARTS = 200
"""Most parts of a path: more than stored documents are nested."""

REFERENCE_FIELDS = frozenset(("$id", "$ref", "$db"))
"""The fields of a reference to another document: the only ones with a `$` that paths may name."""


def check_field_path(path: str) -> list[str]:
    """Return the parts of a path in an expression, a sort or a projection. Errors: MongoDB's for an invalid path."""
    if not path:
        raise CommandError(40352, "FieldPath cannot be constructed with empty string")
    if path.endswith("."):
        raise CommandError(40353, "FieldPath must not end with a '.'.")
    parts = path.split(".")
    if len(parts) > MAX_PARTS:
        raise CommandError(Code.Overflow, "FieldPath is too long")
    for part in parts:
        if not part:
            raise CommandError(15998, "FieldPath field names may not be empty strings.")
        if part.startswith("$") and part not in REFERENCE_FIELDS:
            raise CommandError(
                16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField."
            )
        if "\0" in part:
            raise CommandError(16411, "FieldPath field names may not contain '\\0'.")
    return parts


def covers(prefix: str, path: str) -> bool:
    """True if the path is the prefix or lies below it."""
    return path == prefix or path.startswith(prefix + ".")
