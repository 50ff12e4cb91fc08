"""Read documents of options: of commands, statements, stages and nested documents in them.

Parsers and the checks of privileges read options only here, so that both see one value of each field.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.bson.walk import ARRAY, OBJECT, Value, elements
from docstore.errors import CommandError

Refusal = Callable[[str], CommandError]
"""Returns the error for a name that occurs twice."""


def option_fields(where: str, raw: bytes, refusal: Refusal | None = None) -> dict[str, Value]:
    """Return the values of a document by name; `where` is its dotted name in error texts.

    Errors: for a name that occurs twice, what `refusal` returns; None: Location40413.
    """
    listed = elements(raw)
    fields = {name: (code, data) for name, code, data in listed}
    if len(fields) < len(listed):
        refuse_duplicate(where, [name for name, _, _ in listed], refusal)
    return fields


def refuse_nested_duplicates(where: str, value: Value) -> None:
    """Raise Location40413 if any document in a value has a field twice."""
    code, data = value
    if code not in (ARRAY, OBJECT):
        return
    fields = elements(data)
    if code == OBJECT:
        refuse_duplicate(where, [name for name, _, _ in fields])
    for name, kind, inner in fields:
        refuse_nested_duplicates(where if code == ARRAY else f"{where}.{name}", (kind, inner))


def refuse_duplicate(where: str, names: list[str], refusal: Refusal | None = None) -> None:
    """Raise an error if a name occurs twice, as `option_fields` does."""
    if len(set(names)) < len(names):
        visited: set[str] = set()
        for name in names:
            if name in visited:
                raise duplicate_field(where, name) if refusal is None else refusal(name)
            visited.add(name)


def duplicate_field(where: str, name: str) -> CommandError:
    return CommandError(40413, f"BSON field '{where}.{name}' is a duplicate field")
