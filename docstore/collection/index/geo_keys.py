"""Index keys of documents in a geo index.

A document has one key per cell of its geometry and key of its other fields. Without geometry it has none, unless the
index is a `2dsphere` of version 1. In a `2d` index the other fields are not expanded: the values below an array on the
path form one array.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from docstore.bson import ARRAY, NULL, OBJECT, Value
from docstore.bson.build import array_value
from docstore.collection.index.spec import IndexSpec
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import KEY_OF_NULL
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.geo.cell_keys import NOT_GEOMETRY, NOT_LOCATIONS, GeoKeys, PlaneKeys, SphereKeys
from docstore.query.geo.values_at_path import values_at
from docstore.query.value.notation import display

KeysOf = Callable[[bytes], tuple[list[bytes], int, bytes]]
"""Maps a document to (encoded keys, distinct and sorted; positions of expanded arrays; marks of its entries)."""

_FieldKeys = Callable[[bytes], tuple[list[bytes], int]]
"""Maps a document to (keys of one field, positions of its arrays, with the bit of the path's last name last)."""

_NULL: Value = (NULL, b"")


def geometry_keys(spec: IndexSpec, geometry: GeoKeys) -> KeysOf:
    """Return the key function of the index. Errors: `NOT_GEOMETRY`, `NOT_PAIRS`."""
    fields: list[tuple[_FieldKeys, int]] = []
    shift = 0
    for path, direction in spec.fields:
        fields.append((_field(spec, path, direction, geometry), shift))
        shift += path.count(".") + 1
    located = [position for position, (_, direction) in enumerate(spec.fields) if direction == 0]
    keeps_all = isinstance(geometry, SphereKeys) and geometry.version == 1
    # The common case: one plain point and no other field.
    plain = geometry.points_at(spec.fields[0][0]) if len(fields) == 1 else None

    def keys(raw: bytes) -> tuple[list[bytes], int, bytes]:
        if plain is not None:
            key = plain.of_document(raw)
            if key is not None:
                return [key], 0, b""
        array_bits = 0
        field_keys: list[list[bytes]] = []
        for own, moved in fields:
            members, arrays = own(raw)
            field_keys.append(members)
            array_bits |= arrays << moved
        if not keeps_all and all(field_keys[position] == [KEY_OF_NULL] for position in located):
            return [], 0, b""
        return sorted({b"".join(members) for members in product(*field_keys)}), array_bits, b""

    return keys


def _field(spec: IndexSpec, path: str, direction: int, geometry: GeoKeys) -> _FieldKeys:
    names = path.split(".")
    array_bit = 1 << len(names) - 1
    if direction:
        pattern = KeyPattern([(path, direction)], spec.collation.fold if spec.collation is not None else None)
        if isinstance(geometry, SphereKeys):
            return pattern.keys
        return lambda raw: _encode_value(raw, names, pattern, array_bit)
    cells = _plane_cells if isinstance(geometry, PlaneKeys) else _sphere_cells

    def located(raw: bytes) -> tuple[list[bytes], int]:
        keys = cells(geometry, raw, names)
        return (keys, array_bit if len(keys) > 1 else 0) if keys else ([KEY_OF_NULL], 0)

    return located


def _sphere_cells(geometry: GeoKeys, raw: bytes, names: list[str]) -> list[bytes]:
    keys: set[bytes] = set()
    for value in values_at((OBJECT, raw), names):
        try:
            keys |= set(geometry.cells(value))
        except CommandError as error:
            document_text = display((OBJECT, raw))
            raise CommandError(NOT_GEOMETRY, f"Can't extract geo keys: {document_text}  {error.message}") from error
    return sorted(keys)


def _plane_cells(geometry: GeoKeys, raw: bytes, names: list[str]) -> list[bytes]:
    keys: set[bytes] = set()
    for value in values_at((OBJECT, raw), names):
        try:
            keys |= set(geometry.cells(value))
        except CommandError as error:
            if error.code == NOT_LOCATIONS:
                raise
            raise CommandError(error.code, f"{error.message} :: caused by :: {display((OBJECT, raw))}") from error
    return sorted(keys)


def _encode_value(raw: bytes, names: list[str], pattern: KeyPattern, array_bit: int) -> tuple[list[bytes], int]:
    value = whole_value(raw, names)
    return [pattern.encode([value])], array_bit if value[0] == ARRAY else 0


def whole_value(raw: bytes, names: list[str]) -> Value:
    """Return the value at a path; null if missing, an array if there are several."""
    path_values = list(values_at((OBJECT, raw), names))
    return path_values[0] if len(path_values) == 1 else array_value(path_values) if path_values else _NULL
