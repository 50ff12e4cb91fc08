"""A text search: its parsed text, and the test and score of documents.

A document matches if it has one of the terms, all of the phrases, and none of the negated terms and phrases. Phrases
are searched for in the original texts. The words of a phrase are terms too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.text.languages import Exactness, TextLanguage, compared, language_named
from docstore.query.text.terms import TextKeys
from docstore.query.value.values import string_value

_PIECE = re.compile(r'(?P<minus>(?<!\S)-+(?=\S))|"(?P<phrase>[^"]*)"|"|(?P<word>[^\s"]+)|\s+')


@dataclass(frozen=True, slots=True)
class Search:
    """A search in one language. `terms` and `negated` are as exact as requested, `looked_up` are in the form of index
    keys.
    """

    language: TextLanguage
    exactness: Exactness
    looked_up: frozenset[str]
    terms: frozenset[str]
    negated: frozenset[str]
    phrases: tuple[str, ...]
    negated_phrases: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """True if one of the terms is enough for a match."""
        return self.exactness == Exactness() and not (self.negated or self.phrases or self.negated_phrases)

    def keys(self) -> list[bytes]:
        """Return the keys of the terms that are looked up."""
        return [encode_key(string_value(term)) for term in self.looked_up]

    def finds(self, keys: TextKeys, raw: bytes) -> bool:
        """True if a document matches, in an index of these keys."""
        texts = list(keys.texts(raw))
        terms = {term for text, _, language in texts for term in language.terms(text, self.exactness)}
        if not terms & self.terms or terms & self.negated:
            return False
        if not self.phrases and not self.negated_phrases:
            return True
        folded_texts = [compared(text, self.exactness) for text, _, _ in texts]

        def stands(phrase: str) -> bool:
            folded_phrase = compared(phrase, self.exactness)
            return any(folded_phrase in text for text in folded_texts)

        return all(map(stands, self.phrases)) and not any(map(stands, self.negated_phrases))

    def scorer(self, keys: TextKeys) -> Callable[[bytes], float]:
        """Return the function that scores documents: the sum of the scores of their terms."""
        return keys.scorer(sorted(self.looked_up))


@lru_cache(maxsize=64)
def parse_search(text: str, language: TextLanguage, exactness: Exactness) -> Search:
    """Return the search that a text describes."""
    looked_up: set[str] = set()
    terms: set[str] = set()
    negated: set[str] = set()
    phrases: list[str] = []
    negated_phrases: list[str] = []
    minus = False
    for piece in _PIECE.finditer(text):
        if piece["minus"] is not None:
            minus = True
            continue
        phrase, word = piece["phrase"], piece["word"]
        if phrase is not None:
            (negated_phrases if minus else phrases).append(phrase)
        content = word if word is not None else phrase or ""
        if minus and word is not None:
            negated.update(language.terms(content, exactness))
        elif not minus:
            terms.update(language.terms(content, exactness))
            looked_up.update(language.terms(content))
        minus = False
    return Search(
        language,
        exactness,
        frozenset(looked_up),
        frozenset(terms),
        frozenset(negated),
        tuple(member for member in phrases if member.strip()),
        tuple(member for member in negated_phrases if member.strip()),
    )


class TextMatcher:
    """Tests and scores documents for a `$text`, after a plan has set the index that answers it."""

    def __init__(self) -> None:
        self._found: tuple[Search, TextKeys] | None = None
        self._score: Callable[[bytes], float] | None = None

    def settle(self, text: str, language: str | None, exactness: Exactness, keys: TextKeys) -> Search:
        """Set the index by its keys, and return the search; without `language` it is in that of the index. Error:
        BadValue for an unknown language.
        """
        text_language = keys.language if language is None else language_named(language)
        if text_language is None:
            raise CommandError(Code.BadValue, f'unsupported language: "{language}" for text index version 3')
        search = parse_search(text, text_language, exactness)
        self._found, self._score = (search, keys), None
        return search

    @property
    def settled(self) -> tuple[Search, TextKeys]:
        """(the search, the keys of the index). Error: IndexNotFound before there is one."""
        if self._found is None:
            raise CommandError(Code.IndexNotFound, "text index required for $text query")
        return self._found

    @property
    def language(self) -> str | None:
        """The name of the search's language; None before `settle`."""
        return None if self._found is None else self._found[0].language.name

    def finds(self, raw: bytes) -> bool:
        """True if a document matches."""
        search, keys = self.settled
        return search.finds(keys, raw)

    def score(self, raw: bytes) -> float:
        """Return the text score of a document."""
        return self.scorer()(raw)

    def scorer(self) -> Callable[[bytes], float]:
        """Return the function that computes the text score of documents."""
        if self._score is None:
            search, keys = self.settled
            self._score = search.scorer(keys)
        return self._score
