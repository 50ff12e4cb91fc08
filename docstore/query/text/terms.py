"""The keys of a document in a text index: its terms, each with its score.

The score of a term in a text is the product of

- its frequency, the sum of 1 for the first occurrence, 1/2 for the second, 1/4 for the third and so on;
- half of one plus its share of the text's words;
- 1.1 if the text is the term alone;
- the weight of the text's field.

The scores of a document's texts are added up. The language of its words is named by the document, or the document
around it, or the index.
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
"""The codes of the errors for documents with an invalid language field."""

_PER_TERM = 16

Text = tuple[str, int, TextLanguage]
"""(the text, the weight of its field, its language)."""


@dataclass(frozen=True, slots=True)
class TextKeys:
    """The fields of a text index with their weights; a text in another field has the weight of `EVERYWHERE`. `override`
    is the field by which a document names its language.
    """

    weights: tuple[tuple[str, int], ...]
    language: TextLanguage
    override: str = "language"

    def texts(self, raw: bytes) -> Iterator[Text]:
        """Yield the texts of a document. Errors: `NOT_A_LANGUAGE`."""
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
        """Return the terms of a document with their scores."""
        scores: dict[str, float] = {}
        for text, weight, language in self.texts(raw):
            terms = language.terms(text)
            for term, count in Counter(terms).items():
                spend(_PER_TERM)
                scores[term] = scores.get(term, 0.0) + _score(text, weight, term, count, len(terms))
        return scores

    def plain(self) -> PlainTexts | None:
        """Return the kernel's faster reader of most documents; None unless all weights are on top-level fields."""
        if any(path == EVERYWHERE or "." in path for path, _ in self.weights):
            return None
        return PlainTexts(words_of(self.language), dict(self.weights), self.override)

    def scorer(self, query_terms: list[str]) -> Callable[[bytes], float]:
        """Return a function that adds up the scores of these distinct terms in a document, in their order."""
        texts = self.plain()
        if texts is None:
            return lambda raw: sum(self._scores_of(raw, query_terms))
        plain = Scores(texts, [encode_key(string_value(term)) for term in query_terms]).sum

        def score(raw: bytes) -> float:
            total = plain(raw)
            return sum(self._scores_of(raw, query_terms)) if total < 0 else total

        return score

    def _scores_of(self, raw: bytes, query_terms: list[str]) -> list[float]:
        scores = [0.0] * len(query_terms)
        for text, weight, language in self.texts(raw):
            terms = language.terms(text)
            spend(_PER_TERM * len(query_terms))
            for index, term in enumerate(query_terms):
                count = terms.count(term)
                if count:
                    scores[index] += _score(text, weight, term, count, len(terms))
        return scores


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights by path and for all other fields; `leading`: the proper prefixes of weighted paths."""

    own: dict[str, int]
    everywhere: int | None
    leading: frozenset[str]


@lru_cache(maxsize=64)
def _weights(weights: tuple[tuple[str, int], ...]) -> _Weights:
    own = dict(weights)
    everywhere = own.get(EVERYWHERE)
    names = [path.split(".") for path in own]
    leading = frozenset(".".join(parts[:length]) for parts in names for length in range(1, len(parts)))
    return _Weights(own, everywhere, leading)


def _score(text: str, weight: int, term: str, count: int, total: int) -> float:
    """Return the score of a term that occurs `count` times in a text of `total` terms."""
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
    """Return the term of a key: a text of words has no bytes that a key escapes."""
    return string_value(key[1:-1].decode())
