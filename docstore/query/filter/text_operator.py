"""Parsing of `$text`, the text search in a filter."""

from __future__ import annotations

from docstore.bson.walk import BOOL, OBJECT, STRING, Value
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import TextSearch
from docstore.query.text.languages import Exactness
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import is_true, text_of, type_name

_OPTIONS = {"$search": STRING, "$language": STRING, "$caseSensitive": BOOL, "$diacriticSensitive": BOOL}


def parse_text(value: Value) -> TextSearch:
    """Return the condition of a `$text`. Errors: BadValue, NoSuchKey without `$search`, TypeMismatch."""
    if value[0] != OBJECT:
        raise CommandError(Code.BadValue, "$text expects an object")
    fields = option_fields("$text", value[1], lambda _name: CommandError(Code.BadValue, "extra fields in $text"))
    if "$search" not in fields:
        raise CommandError(Code.NoSuchKey, 'Missing expected field "$search"')
    for name, kind in _OPTIONS.items():
        if name in fields and fields[name][0] != kind:
            expected_type = "string" if kind == STRING else "bool"
            actual_type = type_name(fields[name])
            raise CommandError(
                Code.TypeMismatch, f'"{name}" had the wrong type. Expected {expected_type}, found {actual_type}'
            )
    if not fields.keys() <= _OPTIONS.keys():
        raise CommandError(Code.BadValue, "extra fields in $text")
    exactness = Exactness(is_true(fields.get("$caseSensitive")), is_true(fields.get("$diacriticSensitive")))
    language = text_of(fields["$language"]) if "$language" in fields else None
    return TextSearch(text_of(fields["$search"]), language, exactness, value)
