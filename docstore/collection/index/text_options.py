"""Text indexes: their options, checked as MongoDB does, and their stored form.

In the stored key pattern `_fts` and `_ftsx` replace the text fields; `weights` names those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from docstore.bson import OBJECT, Value, document_from, elements, from_python
from docstore.collection.index.geo_options import kinds_of, refuse_collation
from docstore.collection.index.options import number_of, refused
from docstore.collection.limits import MAX_TEXT_WEIGHT
from docstore.errors import Code, CommandError
from docstore.query.text.languages import language_named
from docstore.query.text.terms import EVERYWHERE, TextKeys
from docstore.query.value.collation import Collation
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, integer_value, string_value, text_of

TERMS = "_fts"
_SCORES = "_ftsx"
_VERSION = 3


@dataclass(frozen=True, slots=True)
class TextIndexSpec:
    """The stored form of a text index: its key pattern, the fields of its entries, and the options as listed."""

    keys: TextKeys
    key: bytes
    fields: tuple[tuple[str, int], ...]
    options: Mapping[str, Value]


def text_index_of(
    raw: bytes,
    key: bytes,
    fields: Sequence[tuple[str, int]],
    options: Mapping[str, Value],
    collation: Collation | None,
) -> TextIndexSpec | None:
    """Return the specification of a text index; None for any other index.

    Errors: CannotCreateIndex; NotImplemented for the versions of servers before 3.2.
    """
    kinds = kinds_of(key)
    positions = [position for position, (_, kind) in enumerate(kinds) if kind == "text"]
    if not positions:
        return None
    refuse_collation(raw, "text", collation)
    if positions[-1] - positions[0] >= len(positions):
        raise refused(raw, "'text' fields in index must all be adjacent")
    weights = _weights(raw, [kinds[position][0] for position in positions], options)
    _check_version(raw, options)
    name = _text_option(options, "default_language", "english")
    language = language_named(name)
    if language is None:
        raise refused(raw, "default_language is not valid")
    override = _override(raw, options)
    for path, code, data in elements(key):
        if code in NUMBERS and number_of((code, data)) not in (1, -1):
            raise refused(raw, f"expected value 1 or -1 for non-text key in compound index, found it at {path}")
    leading, trailing = fields[: positions[0]], [field for field in fields[positions[-1] + 1 :] if field[0] != _SCORES]
    return TextIndexSpec(
        TextKeys(weights, language, override),
        _key_of(key, [path for path, _ in leading], [path for path, _ in trailing]),
        (*leading, (TERMS, 0), *trailing),
        {
            "weights": (OBJECT, document_from([(path, *integer_value(weight)) for path, weight in weights])),
            "default_language": string_value(name),
            "language_override": string_value(override),
            "textIndexVersion": from_python(_VERSION),
        },
    )


def _weights(raw: bytes, paths: Sequence[str], options: Mapping[str, Value]) -> tuple[tuple[str, int], ...]:
    """Return (path, weight) of all fields in the key pattern or `weights`, sorted by path."""
    weights = {path: 1 for path in paths if path != TERMS}
    for path, code, data in elements(options["weights"][1]) if "weights" in options else ():
        weights[path] = _weight(raw, path, (code, data))
    if not weights:
        raise refused(raw, "text index option 'weights' must specify fields or the wildcard")
    return tuple(sorted(weights.items()))


def _override(raw: bytes, options: Mapping[str, Value]) -> str:
    """Return the field that names a document's language."""
    override = _text_option(options, "language_override", "language")
    if not override or override.startswith("$") or "." in override:
        raise refused(raw, "language_override is not valid")
    return override


def _text_option(options: Mapping[str, Value], name: str, default: str) -> str:
    return text_of(options[name]) if name in options else default


def _key_of(key: bytes, before: Sequence[str], after: Sequence[str]) -> bytes:
    """Return the stored key pattern: one pair of fields in place of the text fields, between the other fields."""
    by_path = {path: (path, code, data) for path, code, data in elements(key)}
    text = [(TERMS, *string_value("text")), (_SCORES, *from_python(1))]
    return document_from([*(by_path[path] for path in before), *text, *(by_path[path] for path in after)])


def _check_version(raw: bytes, options: Mapping[str, Value]) -> None:
    version = number_of(options["textIndexVersion"]) // 1 if "textIndexVersion" in options else _VERSION
    if version not in (1, 2, _VERSION):
        raise refused(raw, f"bad textIndexVersion: {version:g}")
    if version != _VERSION:
        raise CommandError(Code.NotImplemented, f"text indexes of version {version:g} are not supported")


def _weight(raw: bytes, path: str, value: Value) -> int:
    if value[0] not in NUMBERS:
        raise refused(raw, "weight for text index needs numeric type")
    weight = number_of(value)
    if not 0 < weight < MAX_TEXT_WEIGHT:
        raise refused(
            raw,
            f"text index weight must be in the exclusive interval (0,{MAX_TEXT_WEIGHT}) but found: {display(value)}",
        )
    if not path:
        raise refused(raw, "weight cannot be on an empty field")
    if path != EVERYWHERE and any(name.startswith("$") for name in path.split(".")):
        raise refused(raw, "weight cannot have path component with $ prefix")
    return int(weight)
