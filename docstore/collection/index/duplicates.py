"""Duplicate key errors, in the reference's words.

`E11000 duplicate key error collection: db.c index: x_1 dup key: { x: 1 }`, with `keyPattern` and `keyValue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.bson import (
    ARRAY,
    NULL,
    OBJECT,
    STRING,
    UNDEFINED,
    Value,
    document_to_python,
    get_field,
    to_python,
    values,
)
from docstore.collection.index.geo_keys import whole_value
from docstore.errors import Code, CommandError
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.scan.index_bounds import field_end
from docstore.query.geo.cell_keys import cell_value
from docstore.query.text.terms import term_value
from docstore.query.value.notation import display_in_full

if TYPE_CHECKING:
    from docstore.collection.collection import Collection, Index

_NULL_VALUE: Value = (NULL, b"")


def duplicate_key(coll: Collection, index: Index, raw: bytes, key: bytes) -> CommandError:
    """Return the error for the document `raw`, whose encoded key `key` in `index` is another document's."""
    components = index_values(index, raw, key)
    extra: dict[str, Any] = {"keyPattern": document_to_python(index.spec.key)}
    rules = ""
    if index.collation is None:
        extra["keyValue"] = {path: to_python(value) for (path, _), value in zip(index.fields, components, strict=True)}
        texts = [display_in_full(value) for value in components]
    else:
        # The entry holds collation keys, which are no text: they are shown in hexadecimal.
        rules = f" collation: {display_in_full((OBJECT, index.collation.raw))}"
        folded = [index.collation.fold(value) for value in components]
        hexes = [value[1][4:-1].hex() if value[0] == STRING else None for value in folded]
        texts = [
            display_in_full(value) if digits is None else f'"0x{digits}"'
            for value, digits in zip(components, hexes, strict=True)
        ]
        extra["keyValue"] = {
            path: to_python(value) if digits is None else digits
            for (path, _), value, digits in zip(index.fields, components, hexes, strict=True)
        }
        extra["hexEncoded"] = [digits is not None for digits in hexes]
        extra["collation"] = document_to_python(index.collation.raw)
    key_text = ", ".join(f"{path}: {text}" for (path, _), text in zip(index.fields, texts, strict=True))
    # The cluster key is no index.
    index_text = "" if index.spec.clustered else f" index: {index.name}"
    return CommandError(
        Code.DuplicateKey,
        f"E11000 duplicate key error collection: {coll.ns}{index_text}{rules} dup key: {{ {key_text} }}",
        extra=extra,
    )


def index_values(index: Index, raw: bytes, key: bytes) -> list[Value]:
    """Return the value per index field that produces the document's encoded key `key`, including geo cells and text
    terms.
    """
    if index.geometry is None and index.text is None:
        return key_values(index.key_pattern, raw, key)
    components: list[Value] = []
    for path, direction in index.fields:
        end = field_end(key, 0, 0xFF if direction < 0 else 0)
        if direction == 0:
            components.append(cell_value(key[:end]) if index.geometry is not None else term_value(key[:end]))
        else:
            pattern = KeyPattern([(path, direction)], index.key_pattern.fold)
            path_value = whole_value(raw, path.split("."))
            same = pattern.encode([path_value]) == key[:end]
            components.append(path_value if same else key_values(pattern, raw, key[:end])[0])
        key = key[end:]
    return components


def key_values(pattern: KeyPattern, raw: bytes, key: bytes) -> list[Value]:
    """Return the document's value per field of the pattern that produces its encoded key `key`."""
    components: list[Value] = []
    for path, direction in pattern.fields:
        single = KeyPattern([(path, direction)], pattern.fold)
        for value in _candidates((OBJECT, raw), path.split(".")):
            encoded = single.encode([value])
            # No key is a prefix of another, so at most one value of the field matches.
            if key.startswith(encoded):
                components.append(value)
                key = key[len(encoded) :]
                break
        else:
            raise AssertionError(f"the document has no such key under {pattern!r}")
    return components


def _candidates(value: Value, path: list[str]) -> list[Value]:
    """Yield every value that an index sees at the path: through arrays on the path, and the members of a final one."""
    code, data = value
    if not path:
        if code != ARRAY:
            return [value]
        return [*values(data), (UNDEFINED, b""), value]
    if code == ARRAY:
        members = [candidate for member in values(data) for candidate in _candidates(member, path)]
        if path[0].isdigit() and (position := int(path[0])) < len(listed := values(data)):
            members += _candidates(listed[position], path[1:])
        return [*members, _NULL_VALUE]
    if code != OBJECT:
        return [_NULL_VALUE]
    inner = get_field(data, path[0])
    return [_NULL_VALUE] if inner is None else _candidates(inner, path[1:])
