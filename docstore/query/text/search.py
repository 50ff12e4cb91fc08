"""A text search: its text taken apart, and what it says of a document.

A document is found that has one of the terms, all of the phrases, and none of what stands behind a minus sign. Phrases
are looked for in the texts as they stand. The words of a phrase are terms too.
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
    """A search in one language. `terms` and `negated` are as exact as was asked for, `looked_up` as indexes hold
    them.
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
        """Whether what has one of the terms is found."""
        return self.exactness == Exactness() and not (self.negated or self.phrases or self.negated_phrases)

    def keys(self) -> list[bytes]:
        """The keys of the terms that are looked up."""
        return [encode_key(string_value(term)) for term in self.looked_up]

    def finds(self, keys: TextKeys, raw: bytes) -> bool:
        """Whether a document is found, in an index of these keys."""
        texts = list(keys.texts(raw))
        terms = {term for text, _, language in texts for term in language.terms(text, self.exactness)}
        if not terms & self.terms or terms & self.negated:
            return False
        if not self.phrases and not self.negated_phrases:
            return True
        whole = [compared(text, self.exactness) for text, _, _ in texts]

        def stands(phrase: str) -> bool:
            wanted = compared(phrase, self.exactness)
            return any(wanted in text for text in whole)

        return all(map(stands, self.phrases)) and not any(map(stands, self.negated_phrases))

    def scorer(self, keys: TextKeys) -> Callable[[bytes], float]:
        """What says how well a document fits: the scores of the terms that it has."""
        return keys.scorer(sorted(self.looked_up))


@lru_cache(maxsize=64)
def parse_search(text: str, language: TextLanguage, exactness: Exactness) -> Search:
    """The search that a text stands for."""
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
        found = word if word is not None else phrase or ""
        if minus and word is not None:
            negated.update(language.terms(found, exactness))
        elif not minus:
            terms.update(language.terms(found, exactness))
            looked_up.update(language.terms(found))
        minus = False
    return Search(
        language,
        exactness,
        frozenset(looked_up),
        frozenset(terms),
        frozenset(negated),
        tuple(each for each in phrases if each.strip()),
        tuple(each for each in negated_phrases if each.strip()),
    )


class TextMatcher:
    """What tests and scores documents for a `$text`, once a plan has found the index that answers it."""

    def __init__(self) -> None:
        self._found: tuple[Search, TextKeys] | None = None
        self._score: Callable[[bytes], float] | None = None

    def settle(self, text: str, language: str | None, exactness: Exactness, keys: TextKeys) -> Search:
        """Say which index it is, by its keys, in whose language is searched where none is named. Error: BadValue for a
        language that is not known.
        """
        known = keys.language if language is None else language_named(language)
        if known is None:
            raise CommandError(Code.BadValue, f'unsupported language: "{language}" for text index version 3')
        search = parse_search(text, known, exactness)
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
        """The name of the language that is searched in; None before it is known."""
        return None if self._found is None else self._found[0].language.name

    def finds(self, raw: bytes) -> bool:
        """Whether a document is found."""
        search, keys = self.settled
        return search.finds(keys, raw)

    def score(self, raw: bytes) -> float:
        """How well a document fits."""
        return self.scorer()(raw)

    def scorer(self) -> Callable[[bytes], float]:
        """What says how well a document fits."""
        if self._score is None:
            search, keys = self.settled
            self._score = search.scorer(keys)
        return self._score
