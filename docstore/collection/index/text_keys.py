"""Index keys of documents in a text index: one per term, between those of the other fields."""

from __future__ import annotations

from docstore.bson import ARRAY, NULL, OBJECT, Value
from docstore.bson.allowance import spend
from docstore.collection.index.geo_keys import KeysOf
from docstore.collection.index.spec import IndexSpec
from docstore.collection.index.text_options import TERMS
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.geo.values_at_path import values_at
from docstore.query.text.terms import TextKeys
from docstore.query.value.long_lists import sort_keys
from docstore.query.value.notation import display
from docstore.query.value.values import string_value

ARRAY_BESIDE_TEXT = 201

_NULL: Value = (NULL, b"")


def text_entries(spec: IndexSpec, text: TextKeys) -> KeysOf:
    """Return the key function of the index. Errors: `NOT_A_LANGUAGE`, 201 for an array in another field."""
    position = [path for path, _ in spec.fields].index(TERMS)
    leading = [(path, KeyPattern([(path, direction)])) for path, direction in spec.fields[:position]]
    trailing = [(path, KeyPattern([(path, direction)])) for path, direction in spec.fields[position + 1 :]]
    several = 1 << sum(path.count(".") + 1 for path, _ in leading)

    plain = text.plain()

    def keys(raw: bytes) -> tuple[list[bytes], int, bytes]:
        head = b"".join([_encode_non_text(raw, path, pattern) for path, pattern in leading])
        tail = b"".join([_encode_non_text(raw, path, pattern) for path, pattern in trailing])
        entries = None if plain is None else plain.terms(raw)
        if entries is None:
            entries = []
            for term in text.scores(raw):
                key = encode_key(string_value(term))
                spend(len(key))
                entries.append(key)
        if head or tail:
            entries = [head + key + tail for key in entries]
            spend(len(entries) * (len(head) + len(tail)))
        sort_keys(entries)
        return entries, several if len(entries) > 1 else 0, b""

    return keys


def _encode_non_text(raw: bytes, path: str, pattern: KeyPattern) -> bytes:
    path_values = list(values_at((OBJECT, raw), path.split("."))) or [_NULL]
    if len(path_values) > 1 or path_values[0][0] == ARRAY:
        document_text = display((OBJECT, raw))
        raise CommandError(
            ARRAY_BESIDE_TEXT, f"Field '{path}' of text index contains an array in document: {document_text}"
        )
    return pattern.encode(path_values)
