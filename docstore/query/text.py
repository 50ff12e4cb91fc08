"""`$text`: its argument is read as a whole, then it is refused, as where no text index has been made."""

from __future__ import annotations

from docstore.bson.walk import BOOL, OBJECT, STRING, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.values import type_name

_OPTIONS = {"$search": STRING, "$language": STRING, "$caseSensitive": BOOL, "$diacriticSensitive": BOOL}


def refusal_of_text(value: Value) -> CommandError:
    """IndexNotFound, or what is wrong with the argument: BadValue, NoSuchKey without `$search`, TypeMismatch."""
    if value[0] != OBJECT:
        return CommandError(Code.BadValue, "$text expects an object")
    fields = {name: (code, data) for name, code, data in elements(value[1])}
    if "$search" not in fields:
        return CommandError(Code.NoSuchKey, 'Missing expected field "$search"')
    for name, kind in _OPTIONS.items():
        if name in fields and fields[name][0] != kind:
            wanted = "string" if kind == STRING else "bool"
            found = type_name(fields[name])
            return CommandError(Code.TypeMismatch, f'"{name}" had the wrong type. Expected {wanted}, found {found}')
    if not fields.keys() <= _OPTIONS.keys():
        return CommandError(Code.BadValue, "extra fields in $text")
    return CommandError(Code.IndexNotFound, "text index required for $text query")
