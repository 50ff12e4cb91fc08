"""Collations: the order of strings by the rules of a language instead of their bytes.

A collation maps a string to a sort key: keys compare, as bytes, as the strings do, and equal strings have equal keys.
Code that compares values under a collation compares *folded* values: the value with every string in it, at any depth,
replaced by its key. Field names, symbols, code and patterns are never folded.

Specifications are MongoDB's. The rules are ICU's. The `version` is that of MongoDB's specifications, since clients
compare it. ICU defines the locales: a locale is valid if it names rules of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import icu

from docstore.bson.convert import from_python
from docstore.bson.walk import ARRAY, BOOL, NULL, OBJECT, STRING, UNDEFINED, Value, elements, values
from docstore.combining_marks import stream_safe
from docstore.errors import Code, CommandError
from docstore.kernel.keys.folding import AsciiWeight, TextFolding
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import NUMBERS, TYPE_NAMES, text_of, truncated_of

VERSION = "57.1"
_INCOMPATIBLE_VERSION = 161
_COMMON = b"\5"
_COMMON_RUNS = b"\xc5"
_REMEMBERED_BYTES = 512
_LENGTH = struct.Struct("<i")

_CASE_FIRST: Final = {
    "off": icu.UCollAttributeValue.OFF,
    "upper": icu.UCollAttributeValue.UPPER_FIRST,
    "lower": icu.UCollAttributeValue.LOWER_FIRST,
}
_ALTERNATE: Final = {
    "non-ignorable": icu.UCollAttributeValue.NON_IGNORABLE,
    "shifted": icu.UCollAttributeValue.SHIFTED,
}
_MAX_VARIABLE: Final = {"punct": "!", "space": " "}
"""A character of the last group that is ignored if `alternate` is shifted."""
_STRENGTHS: Final = {
    1: icu.Collator.PRIMARY,
    2: icu.Collator.SECONDARY,
    3: icu.Collator.TERTIARY,
    4: icu.Collator.QUATERNARY,
    5: icu.Collator.IDENTICAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Specification:
    """The fields of a specification; `backwards` is None if it depends on the locale."""

    locale: str
    case_level: bool = False
    case_first: str = "off"
    strength: int = 3
    numeric_ordering: bool = False
    alternate: str = "non-ignorable"
    max_variable: str = "punct"
    normalization: bool = False
    backwards: bool | None = None
    version: str = VERSION

    def document(self, *, backwards: bool) -> dict[str, Any]:
        """Return all fields in the order of MongoDB's output."""
        return {
            "locale": self.locale,
            "caseLevel": self.case_level,
            "caseFirst": self.case_first,
            "strength": self.strength,
            "numericOrdering": self.numeric_ordering,
            "alternate": self.alternate,
            "maxVariable": self.max_variable,
            "normalization": self.normalization,
            "backwards": backwards,
            "version": VERSION,
        }


class Collation:
    """One collation. Two are equal if their full specifications (`raw`) are."""

    __slots__ = ("_sort_key", "fold", "raw")

    def __init__(
        self, raw: bytes, sort_key: Callable[[str], bytes], weights: Sequence[AsciiWeight], strength: int
    ) -> None:
        """`weights`: see `TextFolding`."""
        self.raw = raw
        self._sort_key = sort_key
        self.fold = TextFolding(self._string_key, weights, strength)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Collation) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def _string_key(self, data: bytes) -> bytes:
        """Return the raw data of the folded value for the raw data of a string value."""
        key = self._sort_key(data[4:-1].decode("utf-8", "replace"))
        return _LENGTH.pack(len(key)) + key

    def fold_document(self, raw: bytes) -> bytes:
        """Return the document with its values folded."""
        return self.fold((OBJECT, raw))[1]


SIMPLE: Final = from_python({"locale": "simple"})[1]
"""The specification of no collation."""


def holds_strings(value: Value) -> bool:
    """True if a collation affects comparisons with the value: it holds strings."""
    code, data = value
    if code == OBJECT:
        return any(holds_strings((inner, part)) for _, inner, part in elements(data))
    if code == ARRAY:
        return any(map(holds_strings, values(data)))
    return code == STRING


def parse_collation(raw: bytes, where: str = "collation") -> Collation | None:
    """Return the collation of a specification; None for the simple one, which compares bytes.

    `where`: the field's name in error texts. Errors: BadValue for an impossible collation, TypeMismatch,
    IncompatibleCollationVersion, and the numbered ones for missing and unknown fields.
    """
    return _remembered(raw, where) if len(raw) <= _REMEMBERED_BYTES else _parsed(raw, where)


def _parsed(raw: bytes, where: str) -> Collation | None:
    specification = _specification(raw, where)
    if specification.locale == "simple":
        return None
    collator = _collator(specification, raw)
    backwards = collator.getAttribute(icu.UCollAttribute.FRENCH_COLLATION) == icu.UCollAttributeValue.ON
    if specification.version != VERSION:
        raise CommandError(
            _INCOMPATIBLE_VERSION,
            f"collation version {specification.version} was asked for, and {VERSION} is what there is",
        )
    if backwards and specification.strength == 1:
        raise _invalid("'backwards' needs a strength of more than 1", raw)
    if specification.case_first != "off" and not specification.case_level and specification.strength < 3:
        raise _invalid("'caseFirst' needs 'caseLevel' or a strength of more than 2", raw)
    plain = not (specification.case_level or specification.numeric_ordering or backwards)
    plain = plain and specification.case_first == "off" and specification.alternate == "non-ignorable"
    return Collation(
        from_python(specification.document(backwards=backwards))[1],
        _sort_key_of(collator),
        _ascii_weights() if plain and specification.strength <= 3 and not collator.getRules() else (),
        specification.strength,
    )


def _sort_key_of(collator: icu.Collator) -> Callable[[str], bytes]:
    """Return the function of a text's sort key. A collator that normalises gets texts that take it linear time."""
    sort_key: Callable[[str], bytes] = collator.getSortKey
    if collator.getAttribute(icu.UCollAttribute.NORMALIZATION_MODE) != icu.UCollAttributeValue.ON:
        return sort_key
    return lambda text: sort_key(stream_safe(text))


_remembered = lru_cache(maxsize=32)(_parsed)
"""Making ICU's collator takes longer than a short find."""


@lru_cache(maxsize=1)
def _ascii_weights() -> Sequence[AsciiWeight]:
    """Return the weights by which `TextFolding` writes keys: those of printable characters by the root
    locale's rules.
    """
    collator = icu.Collator.createInstance(icu.Locale("root"))
    collator.setStrength(icu.Collator.TERTIARY)
    weights: list[AsciiWeight] = [(b"", 0)] * 128
    for code in range(0x20, 0x7F):
        first, second, third = collator.getSortKey(chr(code))[:-1].split(b"\1")
        if len(first) <= 2 and second == _COMMON and (third == _COMMON or third > _COMMON_RUNS):
            weights[code] = first, 0 if third == _COMMON else third[0]
    return weights


def _collator(specification: _Specification, raw: bytes) -> Any:
    """Return ICU's collator for a specification. Error: BadValue for an unknown locale."""
    locale = specification.locale
    if not locale:
        raise _invalid("'locale' cannot be the empty string", raw)
    try:
        collator = icu.Collator.createInstance(icu.Locale(locale))
    except icu.ICUError:
        raise _invalid("'locale' is invalid", raw) from None
    if collator.getLocale(icu.ULocDataLocaleType.VALID_LOCALE).getName() != locale or locale == "root":
        raise _invalid("'locale' is invalid", raw)
    on = {True: icu.UCollAttributeValue.ON, False: icu.UCollAttributeValue.OFF}
    attribute = icu.UCollAttribute
    collator.setAttribute(attribute.CASE_LEVEL, on[specification.case_level])
    collator.setAttribute(attribute.CASE_FIRST, _CASE_FIRST[specification.case_first])
    collator.setAttribute(attribute.NUMERIC_COLLATION, on[specification.numeric_ordering])
    collator.setAttribute(attribute.ALTERNATE_HANDLING, _ALTERNATE[specification.alternate])
    collator.setAttribute(attribute.NORMALIZATION_MODE, on[specification.normalization])
    if specification.backwards is not None:
        collator.setAttribute(attribute.FRENCH_COLLATION, on[specification.backwards])
    collator.setStrength(_STRENGTHS[specification.strength])
    if specification.max_variable != "punct":
        collator.setVariableTop(_MAX_VARIABLE[specification.max_variable])
    return collator


_FIELDS: Final = {
    "locale": ("locale", "string"),
    "caseLevel": ("case_level", "bool"),
    "caseFirst": ("case_first", "string"),
    "strength": ("strength", "number"),
    "numericOrdering": ("numeric_ordering", "bool"),
    "alternate": ("alternate", "string"),
    "maxVariable": ("max_variable", "string"),
    "normalization": ("normalization", "bool"),
    "backwards": ("backwards", "bool"),
    "version": ("version", "string"),
}
_ENUMERATIONS: Final = {"caseFirst": _CASE_FIRST, "alternate": _ALTERNATE, "maxVariable": _MAX_VARIABLE}


def _specification(raw: bytes, where: str) -> _Specification:
    options: dict[str, Any] = {}
    for name, (code, data) in option_fields(where, raw).items():
        if name not in _FIELDS:
            raise CommandError(40415, f"BSON field '{where}.{name}' is an unknown field.")
        if code in (NULL, UNDEFINED) and name != "backwards":
            continue
        target, kind = _FIELDS[name]
        options[target] = _field(f"{where}.{name}", kind, (code, data))
        choices = _ENUMERATIONS.get(name)
        if choices is not None and options[target] not in choices:
            raise CommandError(Code.BadValue, f"'{options[target]}' is no value of '{where}.{name}'")
    if "locale" not in options:
        raise CommandError(40414, f"BSON field '{where}.locale' is missing but a required field")
    return _Specification(**options)


def _field(where: str, kind: str, value: Value) -> Any:
    code = value[0]
    if kind == "string" and code == STRING:
        return text_of(value)
    if kind == "bool" and code == BOOL:
        return value[1] == b"\1"
    if kind == "number" and code in NUMBERS:
        return _strength(where, value)
    raise CommandError(
        Code.TypeMismatch, f"BSON field '{where}' is the wrong type '{TYPE_NAMES[code]}', expected a {kind}"
    )


def _strength(where: str, value: Value) -> int:
    strength = truncated_of(value)
    assert strength is not None, "it is a number"
    if strength not in _STRENGTHS:
        if strength > max(_STRENGTHS) or strength < 0:
            raise CommandError(51024, f"BSON field '{where}' must be from 0 to 5, actual value '{strength}'")
        raise CommandError(Code.BadValue, f"'{strength}' is no value of '{where}'")
    return strength


def _invalid(reason: str, raw: bytes) -> CommandError:
    return CommandError(Code.BadValue, f"{reason} in: {display((OBJECT, raw))}")
