"""Indexes of words and of geometry: their options are checked as MongoDB does, then the indexes are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.bson import OBJECT, STRING, Value, elements
from docstore.collection.index_options import number_of, refused
from docstore.errors import Code, CommandError
from docstore.query.values import NUMBERS, TYPE_NAMES, display, text_of

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

_LANGUAGES = frozenset(
    (
        *("da", "danish", "de", "german", "en", "english", "es", "spanish", "fi", "finnish", "fr", "french", "hu"),
        *("hungarian", "it", "italian", "nb", "norwegian", "nl", "dutch", "none", "pt", "portuguese", "ro", "romanian"),
        *("ru", "russian", "sv", "swedish", "tr", "turkish"),
    )
)
_MAX_WEIGHT = 100_000
_MAX_BITS = 32
_MAX_LEVEL = 30


def check_type(raw: bytes, name: str, value: Value) -> None:
    """Error: TypeMismatch."""
    wanted = _TYPES[name]
    fits = {"object": value[0] == OBJECT, "string": value[0] == STRING, "number": value[0] in NUMBERS}
    if not fits[wanted]:
        article = "an" if wanted == "object" else "a"
        message = f"The field '{name}' must be {article} {wanted}, but got {TYPE_NAMES[value[0]]}"
        raise refused(raw, message, Code.TypeMismatch)


def refuse_special(raw: bytes, key: bytes, options: Mapping[str, Value]) -> None:
    """Errors: those of MongoDB for keys and options that do not go together, then NotImplemented."""
    fields = [(path, text_of((code, data)) if code == STRING else "") for path, code, data in elements(key)]
    kind = next((kind for _, kind in fields if kind in SPECIAL_KINDS), None)
    if kind == "text":
        _check_text(raw, fields, options)
    elif kind == "2d":
        _check_plane(raw, fields, options)
    elif kind == "2dsphere":
        _check_sphere(raw, options)
    elif "weights" in options:
        raise refused(raw, "the field 'weights' can only be specified with text indexes")
    if kind is not None:
        raise CommandError(Code.NotImplemented, f"indexes of the kind '{kind}' are not supported")


def _check_text(raw: bytes, fields: Sequence[tuple[str, str]], options: Mapping[str, Value]) -> None:
    places = [place for place, (_, kind) in enumerate(fields) if kind == "text"]
    if places[-1] - places[0] >= len(places):
        raise refused(raw, "'text' fields in index must all be adjacent")
    _refuse_collation(raw, "text", options)
    for path, code, data in elements(options["weights"][1]) if "weights" in options else ():
        _check_weight(raw, path, (code, data))
    version = number_of(options["textIndexVersion"]) // 1 if "textIndexVersion" in options else 3
    if version not in (1, 2, 3):
        raise refused(raw, f"bad textIndexVersion: {version:g}")
    language = text_of(options["default_language"]) if "default_language" in options else "none"
    if version > 1 and language.lower() not in _LANGUAGES:
        raise refused(raw, "default_language is not valid")
    override = text_of(options["language_override"]) if "language_override" in options else "language"
    if not override or override.startswith("$") or "." in override:
        raise refused(raw, "language_override is not valid")


def _check_weight(raw: bytes, path: str, value: Value) -> None:
    if value[0] not in NUMBERS:
        raise refused(raw, "weight for text index needs numeric type")
    if not 0 < number_of(value) < _MAX_WEIGHT:
        raise refused(
            raw, f"text index weight must be in the exclusive interval (0,{_MAX_WEIGHT}) but found: {display(value)}"
        )
    if not path:
        raise refused(raw, "weight cannot be on an empty field")
    if path != "$**" and any(name.startswith("$") for name in path.split(".")):
        raise refused(raw, "weight cannot have path component with $ prefix")


def _refuse_collation(raw: bytes, kind: str, options: Mapping[str, Value]) -> None:
    if "collation" not in options:
        return
    locale = {name: (code, data) for name, code, data in elements(options["collation"][1])}.get("locale")
    if locale is not None and locale[0] == STRING and text_of(locale) != "simple":
        raise refused(raw, f"Index type '{kind}' does not support collation")


def _check_plane(raw: bytes, fields: Sequence[tuple[str, str]], options: Mapping[str, Value]) -> None:
    _refuse_collation(raw, "2d", options)
    if sum(kind == "2d" for _, kind in fields) > 1:
        raise CommandError(16800, "can't have 2 geo fields")
    if fields[0][1] != "2d":
        raise CommandError(16801, "2d has to be first in index")
    bits = number_of(options["bits"]) // 1 if "bits" in options else 26
    if not 0 < bits <= _MAX_BITS:
        raise CommandError(
            Code.InvalidOptions, f"bits for hash must be > 0 and <= {_MAX_BITS}, but {bits:g} bits were specified"
        )
    low = number_of(options["min"]) if "min" in options else -180
    high = number_of(options["max"]) if "max" in options else 180
    if not low < high:
        raise CommandError(
            Code.InvalidOptions,
            f"region for hash must be valid and have positive area, but [{low:g}, {high:g}] was specified",
        )


def _check_sphere(raw: bytes, options: Mapping[str, Value]) -> None:
    if "2dsphereIndexVersion" in options:
        version = number_of(options["2dsphereIndexVersion"])
        if version != version // 1:
            raise CommandError(Code.BadValue, "2dsphereIndexVersion is no whole number")
        if version not in (1, 2, 3):
            raise refused(raw, f"unsupported geo index version {version:g}, only versions: [1,2,3] are supported")
    finest = number_of(options["finestIndexedLevel"]) if "finestIndexedLevel" in options else _MAX_LEVEL
    coarsest = number_of(options["coarsestIndexedLevel"]) if "coarsestIndexedLevel" in options else 0
    if coarsest < 0:
        raise CommandError(16747, "coarsestIndexedLevel must be >= 0")
    if finest > _MAX_LEVEL:
        raise CommandError(16748, f"finestIndexedLevel must be <= {_MAX_LEVEL}")
    if finest < coarsest:
        raise CommandError(16749, "finestIndexedLevel must be >= coarsestIndexedLevel")
