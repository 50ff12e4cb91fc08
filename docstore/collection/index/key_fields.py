"""Fields of an index key pattern, and the patterns that are refused."""

from __future__ import annotations

from functools import partial
from math import isnan

from docstore.bson import OBJECT, STRING, Value, elements
from docstore.bson.allowance import spend
from docstore.collection.index.geo_options import SPECIAL_KINDS
from docstore.collection.index.options import number_of, refused
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display
from docstore.query.value.option_fields import refuse_duplicate
from docstore.query.value.paths import MAX_PARTS, REFERENCE_FIELDS
from docstore.query.value.values import NUMBERS, TYPE_NAMES, text_of

_WILDCARD = "$**"
_PER_FIELD = 512
"""Work units charged for a field."""


def key_fields(raw: bytes, key: bytes) -> tuple[tuple[str, int], ...]:
    """Return (dotted path, 1 or -1; 0 for a field of another kind) of each field. Errors: CannotCreateIndex."""
    fields: list[tuple[str, int]] = []
    plugin: str | None = None
    for path, code, data in elements(key):
        spend(_PER_FIELD)
        direction = _direction(raw, (code, data))
        if code == STRING:
            kind = text_of((code, data))
            if plugin is not None and plugin != kind:
                raise refused(raw, "Can't use more than one index plugin for a single index.")
            plugin = kind
        if path.count(".") >= MAX_PARTS:
            raise refused(raw, "FieldPath is too long")
        _check_path(raw, path, plugin)
        if is_wildcard(path):
            if direction < 0:
                raise refused(raw, "A numeric value in a $** index key pattern must be positive.")
            direction = 0
        fields.append((path, direction))
    if not fields:
        raise refused(raw, "Index keys cannot be empty.")
    if plugin != "text" and len(fields) > 1 and any(is_wildcard(path) for path, _ in fields):
        _check_compound_wildcard(raw, fields)
    paths = [path for path, _ in fields]
    refuse_duplicate("key", paths, partial(_repeated_path, raw, key))
    return tuple(fields)


def _repeated_path(raw: bytes, key: bytes, path: str) -> CommandError:
    key_text = display((OBJECT, key))
    return refused(raw, f"The field '{path}' appears multiple times in the index key pattern {key_text}", Code.BadValue)


def _check_compound_wildcard(raw: bytes, fields: list[tuple[str, int]]) -> None:
    wild = [path for path, _ in fields if is_wildcard(path)]
    if len(wild) > 1:
        raise refused(raw, "wildcard indexes do not allow more than one wildcard field")
    if any(direction == 0 and not is_wildcard(path) for path, direction in fields):
        raise refused(raw, "wildcard indexes do not allow compounding with special index types")
    prefix = wild[0].removesuffix(_WILDCARD)
    for path, _ in fields:
        if prefix and (path + ".").startswith(prefix) and not is_wildcard(path):
            raise refused(raw, f"wildcard indexes do not allow the field '{path}' in the scope of the wildcard")


def is_wildcard(path: str) -> bool:
    """True if the field of a key pattern is a wildcard: `$**`, or `a.$**`."""
    return path == _WILDCARD or path.endswith("." + _WILDCARD)


def _check_path(raw: bytes, path: str, plugin: str | None) -> None:
    """Refuse a path that no field can have. `plugin`: the index kind, as far as the key pattern has been read."""
    names = path.split(".")
    if not path:
        raise refused(raw, "Index keys cannot be an empty field.")
    if "" in names:
        raise refused(raw, "Index keys cannot contain an empty field.")
    may_be_wildcard = plugin is None or (plugin == "text" and len(names) == 1)
    named = names[:-1] if may_be_wildcard and is_wildcard(path) else names
    if any(name.startswith("$") and (index == 0 or name not in REFERENCE_FIELDS) for index, name in enumerate(named)):
        raise refused(raw, "Index key contains an illegal field name: field name starts with '$'.")


def _direction(raw: bytes, value: Value) -> int:
    """Return 1 or -1; 0 for a field whose kind is a string."""
    code = value[0]
    if code == STRING:
        kind = text_of(value)
        if not kind:
            raise refused(raw, "Values in the index key pattern cannot be empty strings")
        if kind == "wildcard":
            raise refused(raw, "The key pattern value for a 'wildcard' index must be a non-zero number, not a string.")
        if kind == "geoHaystack":
            raise refused(raw, "GeoHaystack indexes cannot be created in version 5.0 and above")
        if kind != "hashed" and kind not in SPECIAL_KINDS:
            raise refused(raw, f"Unknown index plugin '{kind}'")
        return 0
    if code not in NUMBERS:
        raise refused(
            raw,
            f"Values in v:2 index key pattern cannot be of type {TYPE_NAMES[code]}. "
            "Only numbers > 0, numbers < 0, and strings are allowed.",
        )
    number = number_of(value)
    if number == 0 or isnan(number):
        raise refused(raw, f"Values in the index key pattern cannot be {'NaN' if isnan(number) else 0}.")
    return 1 if number > 0 else -1
