"""What a text index holds of a document: its terms, each with its score.

A text gives a term the more, the oftener it stands in it and the larger a part of its words it is: the first time
counts 1, the second 1/2, the third 1/4 and so on; that is weighed by half of one plus the part of the words; a text
that is nothing but the term counts a tenth more. Texts are weighed by their fields and added up. The words of a
document are of the language that the document names itself, or the document that it is in, or the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from docstore.bson.allowance import spend
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import CommandError
from docstore.query.text.languages import TextLanguage, language_named
from docstore.query.value.values import string_value, text_of

EVERYWHERE = "$**"
NOT_A_LANGUAGE = frozenset((17261, 17262))
"""The codes of documents that name their language wrongly."""

_PER_TERM = 16

Text = tuple[str, int, TextLanguage]
"""(the text, the weight of its field, its language)."""


@dataclass(frozen=True, slots=True)
class TextKeys:
    """The fields of a text index with their weights, where a text without a field of its own has the weight of
    `EVERYWHERE`. `override` is the field by which a document names its language.
    """

    weights: tuple[tuple[str, int], ...]
    language: TextLanguage
    override: str = "language"

    def texts(self, raw: bytes) -> Iterator[Text]:
        """The texts of a document. Errors: `NOT_A_LANGUAGE`."""
        return self._texts(raw, "", dict(self.weights), self.language)

    def _texts(self, raw: bytes, prefix: str, weights: dict[str, int], language: TextLanguage) -> Iterator[Text]:
        fields = elements(raw)
        for name, code, data in fields:
            if name == self.override:
                language = _language((code, data))
        for name, code, data in fields:
            if name != self.override:
                path = prefix + name
                yield from self._at(path, (code, data), weights, language, in_array=False)

    def _at(
        self, path: str, value: Value, weights: dict[str, int], language: TextLanguage, *, in_array: bool
    ) -> Iterator[Text]:
        code, data = value
        if code == STRING:
            weight = weights.get(path, weights.get(EVERYWHERE))
            if weight is not None:
                yield text_of(value), weight, language
        elif code == OBJECT and self._leads_on(path, weights):
            yield from self._texts(data, path + ".", weights, language)
        elif code == ARRAY and not in_array:
            for member in values(data):
                yield from self._at(path, member, weights, language, in_array=True)

    @staticmethod
    def _leads_on(path: str, weights: dict[str, int]) -> bool:
        return EVERYWHERE in weights or any(each.startswith(path + ".") for each in weights)

    def scores(self, raw: bytes) -> dict[str, float]:
        """The terms of a document with their scores."""
        found: dict[str, float] = {}
        for text, weight, language in self.texts(raw):
            counted = Counter(language.terms(text))
            total = counted.total()
            for term, count in counted.items():
                spend(_PER_TERM)
                score = weight * (2 - 0.5 ** (count - 1)) * (0.5 * count / total + 0.5)
                if len(counted) == 1 and len(text.encode()) == len(term.encode()):
                    score *= 1.1
                found[term] = found.get(term, 0.0) + score
        return found


def _language(value: Value) -> TextLanguage:
    if value[0] != STRING:
        raise CommandError(17261, "found language override field in document with non-string type")
    language = language_named(text_of(value))
    if language is None:
        raise CommandError(17262, f"language override unsupported: {text_of(value)}")
    return language


def term_value(key: bytes) -> Value:
    """What the key of a term stands for: texts of words have no bytes that a key writes otherwise."""
    return string_value(key[1:-1].decode())
