"""Options of geo indexes, checked as MongoDB does, and the table of options that geo and text indexes take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from sys import float_info

from docstore.bson import OBJECT, STRING, Value, elements
from docstore.collection.index.options import number_of, refused
from docstore.collection.limits import MAX_GEO_HASH_BITS
from docstore.errors import Code, CommandError
from docstore.query.geo.cell_keys import GeoKeys, PlaneKeys, SphereKeys
from docstore.query.geo.plane_cells import Square
from docstore.query.geo.sphere_cells import LEVELS
from docstore.query.value.collation import Collation
from docstore.query.value.values import NUMBERS, TYPE_NAMES, double_value, integer_value, text_of, truncated_of

SPECIAL_KINDS = frozenset(("text", "2d", "2dsphere"))

_TYPES = {
    "weights": "object",
    "default_language": "string",
    "language_override": "string",
    "textIndexVersion": "number",
    "2dsphereIndexVersion": "number",
    "bits": "number",
    "min": "number",
    "max": "number",
    "coarsestIndexedLevel": "number",
    "finestIndexedLevel": "number",
}
SPECIAL_OPTIONS = frozenset(_TYPES)


def check_type(raw: bytes, name: str, value: Value) -> None:
    """Check the type of an option. Errors: TypeMismatch."""
    expected_type = _TYPES[name]
    fits = {"object": value[0] == OBJECT, "string": value[0] == STRING, "number": value[0] in NUMBERS}
    if not fits[expected_type]:
        article = "an" if expected_type == "object" else "a"
        message = f"The field '{name}' must be {article} {expected_type}, but got {TYPE_NAMES[value[0]]}"
        raise refused(raw, message, Code.TypeMismatch)


def kept_special(options: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options of geo and text indexes in listed form: integers, and doubles for the bounds of a `2d`
    index.
    """
    special_options: dict[str, Value] = {}
    for name in SPECIAL_OPTIONS & options.keys():
        value = options[name]
        if _TYPES[name] == "number":
            number = number_of(value)
            special_options[name] = (
                double_value(number) if name in ("min", "max") else integer_value(truncated_of(value) or 0)
            )
        else:
            special_options[name] = value
    return special_options


def kinds_of(key: bytes) -> list[tuple[str, str]]:
    """Return (path, index kind; empty for an ordinary field) of each field of a key pattern."""
    return [(path, text_of((code, data)) if code == STRING else "") for path, code, data in elements(key)]


def geometry_of(raw: bytes, key: bytes, options: Mapping[str, Value], collation: Collation | None) -> GeoKeys | None:
    """Return the key generator of a geo index; None for any other index.

    Errors: MongoDB's codes for keys and options that do not fit together.
    """
    fields = kinds_of(key)
    kind = next((kind for _, kind in fields if kind in SPECIAL_KINDS), None)
    if "weights" in options and kind != "text":
        raise refused(raw, "the field 'weights' can only be specified with text indexes")
    if kind == "2d":
        refuse_collation(raw, kind, collation)
        return _plane(fields, options)
    return _sphere(raw, options) if kind == "2dsphere" else None


def refuse_collation(raw: bytes, kind: str, collation: Collation | None) -> None:
    """Errors: CannotCreateIndex for an index kind that does not support collations."""
    if collation is not None:
        raise refused(raw, f"Index type '{kind}' does not support collation")


def _plane(fields: Sequence[tuple[str, str]], options: Mapping[str, Value]) -> PlaneKeys:
    if sum(kind == "2d" for _, kind in fields) > 1:
        raise CommandError(16800, "can't have 2 geo fields")
    if fields[0][1] != "2d":
        raise CommandError(16801, "2d has to be first in index")
    number = _number(options, "bits", 26)
    # Convert as to an int32: NaN is 0, larger values are clamped.
    bits = 0 if number != number else int(min(max(number, -(2.0**31)), 2.0**31 - 1))
    if not 0 < bits <= MAX_GEO_HASH_BITS:
        raise CommandError(
            Code.InvalidOptions, f"bits for hash must be > 0 and <= {MAX_GEO_HASH_BITS}, but {bits} bits were specified"
        )
    low, high = _number(options, "min", -180), _number(options, "max", 180)
    if not (low < high and isfinite(low) and isfinite(high)):
        raise CommandError(
            Code.InvalidOptions,
            f"region for hash must be valid and have positive area, but [{low:g}, {high:g}] was specified",
        )
    if (high - low) / (1 << bits) < float_info.min:
        raise CommandError(Code.InvalidOptions, f"range [{low:g}, {high:g}] is too small for {bits} bits of precision")
    if not isfinite((high - low) * (high - low)):
        raise CommandError(4799400, f"the square of [{low:g}, {high:g}] is too large")
    return PlaneKeys(Square(low, high, bits))


def _sphere(raw: bytes, options: Mapping[str, Value]) -> SphereKeys:
    version = _number(options, "2dsphereIndexVersion", 3)
    _check_whole("2dsphereIndexVersion", version)
    if version not in (1, 2, 3):
        raise refused(raw, f"unsupported geo index version {version:g}, only versions: [1,2,3] are supported")
    finest = _number(options, "finestIndexedLevel", LEVELS)
    coarsest = _number(options, "coarsestIndexedLevel", 0)
    _check_whole("finestIndexedLevel", finest)
    _check_whole("coarsestIndexedLevel", coarsest)
    if coarsest < 0:
        raise CommandError(16747, "coarsestIndexedLevel must be >= 0")
    if finest > LEVELS:
        raise CommandError(16748, f"finestIndexedLevel must be <= {LEVELS}")
    if finest < coarsest:
        raise CommandError(16749, "finestIndexedLevel must be >= coarsestIndexedLevel")
    return SphereKeys(int(version), int(coarsest), int(finest))


def _number(options: Mapping[str, Value], name: str, default: float) -> float:
    return number_of(options[name]) if name in options else default


def _check_whole(name: str, number: float) -> None:
    if number != number // 1:
        raise CommandError(Code.BadValue, f"{name} is no whole number")
