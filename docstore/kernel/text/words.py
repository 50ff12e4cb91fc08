"""The terms of texts, read from raw documents.

A cache maps each word to the key of its term in an index (`docstore.query.text.languages`), empty for a stop word. So a
text costs one pass over its bytes and one lookup for each of its words.

Invariant: terms and scores are those of `docstore.query.text.terms`. That module handles documents that name a language
of their own, arrays, and long texts, between whose words other tasks may run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import cython

from docstore.bson.walk import encoded_name

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, STRING, document_stop, name_end, part, value_end
    from docstore.kernel.match.path_predicates import is_name

_REMEMBERED: cython.Py_ssize_t = 1 << 14
_LONG: cython.Py_ssize_t = 1 << 12
"""Most bytes of a text that is read here."""
_PER_WORD: cython.Py_ssize_t = 16
_ASCII: cython.int = 128


class Words:
    """The words of one language. `between`: the ASCII separators of words; `split` tokenizes other texts; `learn`
    returns the key of a word's term.
    """

    _between: bytes
    _split: Callable[[str], Iterable[str]]
    _learn: Callable[[str], bytes]
    _cache: dict[bytes, bytes]

    def __init__(
        self, between: Iterable[str], split: Callable[[str], Iterable[str]], learn: Callable[[str], bytes]
    ) -> None:
        marks = set(between)
        self._between = bytes(chr(code) in marks for code in range(_ASCII))
        self._split = split
        self._learn = learn
        self._cache = {}

    def keys(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> list[bytes] | None:
        """Return the keys of the terms of a text in UTF-8, in their order; None for a long one."""
        keys: list[bytes] = []
        begin: cython.Py_ssize_t = at
        offset: cython.Py_ssize_t
        if end - at > _LONG:
            return None
        for offset in range(at, end):
            if raw[offset] >= _ASCII:
                return self._of_others(part(raw, at, end))
            if self._between[raw[offset]]:
                if offset > begin:
                    self._add(part(raw, begin, offset), keys)
                begin = offset + 1
        if end > begin:
            self._add(part(raw, begin, end), keys)
        spend(_PER_WORD * len(keys))
        return keys

    @cython.cfunc
    def _of_others(self, text: bytes) -> list[bytes]:
        keys: list[bytes] = []
        for word in self._split(text.decode()):
            self._add(word.encode(), keys)
        spend(_PER_WORD * len(keys))
        return keys

    @cython.cfunc
    def _add(self, word: bytes, keys: list[bytes]) -> None:
        key: object = self._cache.get(word)
        if key is None:
            # Learning may let other tasks run, which may learn, too.
            key = self._learn(word.decode())
            if len(self._cache) >= _REMEMBERED:
                self._cache.clear()
            self._cache[word] = key
        if key:
            keys.append(key)  # type: ignore[arg-type]


class PlainTexts:
    """The texts of documents at top-level fields, with the `weights` of these, all in one language. `override` is the
    field by which a document names its language.
    """

    _words: Words
    _names: list[bytes]
    _weights: list[float]
    _override: bytes

    def __init__(self, words: Words, weights: Mapping[str, int], override: str) -> None:
        self._words = words
        self._names = [encoded_name(path) for path in weights]
        self._weights = [float(weight) for weight in weights.values()]
        self._override = encoded_name(override)

    def terms(self, raw: bytes) -> list[bytes] | None:
        """Return the keys of the distinct terms of a document; None for one that is not supported here."""
        terms: list[bytes] = []
        texts: list[tuple[float, int, list[bytes]]] | None = self._texts(raw)
        if texts is None:
            return None
        for _, _, keys in texts:
            terms += keys
        return list(set(terms))

    @cython.cfunc
    def _texts(self, raw: bytes) -> list[tuple[float, int, list[bytes]]] | None:
        """Return (weight, bytes, keys of the terms) of each text, in the order of the document."""
        texts: list[tuple[float, int, list[bytes]]] = []
        keys: list[bytes] | None
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        index: cython.Py_ssize_t
        code: cython.int
        while at < stop:
            code = raw[at]
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, code, named + 1, stop)
            if is_name(raw, at + 1, named, self._override):
                return None
            for index in range(len(self._names)):
                if is_name(raw, at + 1, named, self._names[index]):
                    if code == STRING:
                        keys = self._words.keys(raw, named + 5, end - 1)
                        if keys is None:
                            return None
                        texts.append((self._weights[index], end - named - 6, keys))
                    elif code == ARRAY:
                        return None
            at = end
        return texts


class Scores:
    """Scores documents for distinct terms, given by their keys."""

    _texts: PlainTexts
    _term_keys: list[bytes]

    def __init__(self, texts: PlainTexts, term_keys: Sequence[bytes]) -> None:
        self._texts = texts
        self._term_keys = list(term_keys)

    @cython.ccall
    def score_terms(self, raw: bytes) -> list[float] | None:
        """Return the score of each term; None for a document that is not supported here."""
        scores: list[float] = [0.0] * len(self._term_keys)
        text: tuple[float, int, list[bytes]]
        texts: list[tuple[float, int, list[bytes]]] | None = self._texts._texts(raw)
        key: bytes
        keys: list[bytes]
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t
        total: cython.Py_ssize_t
        weight: cython.double
        score: cython.double
        if texts is None:
            return None
        for text in texts:
            weight = text[0]
            keys = text[2]
            total = len(keys)
            for index in range(len(self._term_keys)):
                key = self._term_keys[index]
                count = keys.count(key)
                if count:
                    score = weight * (2.0 - 0.5 ** (count - 1)) * (0.5 * count / total + 0.5)
                    # The text is the term alone: its key has a byte before and after it, and escapes zeros.
                    if count == total and text[1] == len(key) - 1 - key.count(b"\0"):
                        score = score * 1.1
                    scores[index] += score
        return scores

    def sum(self, raw: bytes) -> float:
        """Return the sum of the scores, in the order of the terms; negative for a document that is not
        supported here.
        """
        scores: list[float] | None = self.score_terms(raw)
        score: cython.double = 0.0
        index: cython.Py_ssize_t
        if scores is None:
            return -1.0
        for index in range(len(scores)):
            score += scores[index]
        return score
