"""The values at a dotted path, for functions that read each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docstore.bson.walk import ARRAY, OBJECT, Value, get_field, place_in_array, values


def values_at(value: Value, names: Sequence[str]) -> Iterator[Value]:
    """Yield the values at the path below a document, through arrays on the way; an array at its end is one value."""
    if not names:
        yield value
        return
    code, data = value
    if code == OBJECT:
        inner = get_field(data, names[0])
        if inner is not None:
            yield from values_at(inner, names[1:])
    elif code == ARRAY:
        members = values(data)
        position = place_in_array(names[0])
        if 0 <= position < len(members):
            yield from values_at(members[position], names[1:])
        for member in members:
            if member[0] == OBJECT:
                yield from values_at(member, names)
