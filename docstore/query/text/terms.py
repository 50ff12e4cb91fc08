"""What a text index holds of a document: its terms, each with its score.

A text gives a term the more, the oftener it stands in it and the larger a part of its words it is: the first time
counts 1, the second 1/2, the third 1/4 and so on; that is weighed by half of one plus the part of the words; a text
that is nothing but the term counts a tenth more. Texts are weighed by their fields and added up. The words of a
document are of the language that the document names itself, or the document that it is in, or the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from docstore.bson.allowance import spend
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.text.words import PlainTexts, Scores
from docstore.query.text.languages import TextLanguage, language_named, words_of
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
        return self._texts(raw, "", _weights(self.weights), self.language)

    def _texts(self, raw: bytes, prefix: str, weights: _Weights, language: TextLanguage) -> Iterator[Text]:
        fields = elements(raw)
        for name, code, data in fields:
            if name == self.override:
                language = _language((code, data))
        for name, code, data in fields:
            if name != self.override:
                path = prefix + name
                if weights.everywhere is not None or path in weights.own or path in weights.leading:
                    yield from self._at(path, (code, data), weights, language, in_array=False)

    def _at(
        self, path: str, value: Value, weights: _Weights, language: TextLanguage, *, in_array: bool
    ) -> Iterator[Text]:
        code, data = value
        if code == STRING:
            weight = weights.own.get(path, weights.everywhere)
            if weight is not None:
                yield text_of(value), weight, language
        elif code == OBJECT and (weights.everywhere is not None or path in weights.leading):
            yield from self._texts(data, path + ".", weights, language)
        elif code == ARRAY and not in_array:
            for member in values(data):
                yield from self._at(path, member, weights, language, in_array=True)

    def scores(self, raw: bytes) -> dict[str, float]:
        """The terms of a document with their scores."""
        found: dict[str, float] = {}
        for text, weight, language in self.texts(raw):
            terms = language.terms(text)
            for term, count in Counter(terms).items():
                spend(_PER_TERM)
                found[term] = found.get(term, 0.0) + _score(text, weight, term, count, len(terms))
        return found

    def plain(self) -> PlainTexts | None:
        """What reads most documents faster; None where a weight is not one of a field at the top."""
        if any(path == EVERYWHERE or "." in path for path, _ in self.weights):
            return None
        return PlainTexts(words_of(self.language), dict(self.weights), self.override)

    def scorer(self, wanted: list[str]) -> Callable[[bytes], float]:
        """What gives the sum of the scores of different terms that a document has, in the order of these."""
        texts = self.plain()
        if texts is None:
            return lambda raw: sum(self._scores_of(raw, wanted))
        plain = Scores(texts, [encode_key(string_value(term)) for term in wanted]).sum

        def score(raw: bytes) -> float:
            found = plain(raw)
            return sum(self._scores_of(raw, wanted)) if found < 0 else found

        return score

    def _scores_of(self, raw: bytes, wanted: list[str]) -> list[float]:
        scores = [0.0] * len(wanted)
        for text, weight, language in self.texts(raw):
            terms = language.terms(text)
            spend(_PER_TERM * len(wanted))
            for place, term in enumerate(wanted):
                count = terms.count(term)
                if count:
                    scores[place] += _score(text, weight, term, count, len(terms))
        return scores


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights by path and of all else; `leading`: the paths on the way to those that have one."""

    own: dict[str, int]
    everywhere: int | None
    leading: frozenset[str]


@lru_cache(maxsize=64)
def _weights(weights: tuple[tuple[str, int], ...]) -> _Weights:
    own = dict(weights)
    everywhere = own.get(EVERYWHERE)
    names = [path.split(".") for path in own]
    leading = frozenset(".".join(each[:length]) for each in names for length in range(1, len(each)))
    return _Weights(own, everywhere, leading)


def _score(text: str, weight: int, term: str, count: int, total: int) -> float:
    """What a text gives a term that stands in it so often, of so many terms in all."""
    score = weight * (2 - 0.5 ** (count - 1)) * (0.5 * count / total + 0.5)
    return score * 1.1 if count == total and len(text.encode()) == len(term.encode()) else score


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
