"""The languages of text indexes: the tokenizer of each, its stop words, and the term of a word.

Words are separated by Unicode's dashes, quotation marks, punctuation, pattern characters and white space. In English an
apostrophe is part of a word. The term of a word is its stem, without case and diacritics unless a search is sensitive
to them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, cast

import icu
import snowballstemmer

from docstore.bson.allowance import spend
from docstore.combining_marks import stream_safe
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.text.words import Words
from docstore.query.text.stop_words import STOP_WORDS
from docstore.query.value.values import string_value

_NAMES = {
    "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
_BETWEEN = "[[:Dash:][:Hyphen:][:Pattern_Syntax:][:Quotation_Mark:][:Terminal_Punctuation:][:White_Space:]]"
_REMEMBERED = 1 << 14
_SHORT = 1 << 12
"""Most characters of a text whose words are looked up without a check of the clock."""
_PER_WORD, _PER_STEM = 16, 512
"""Units of work charged for reading a word, and for stemming it."""


@dataclass(frozen=True, slots=True)
class Exactness:
    """The distinctions that terms keep, besides letters."""

    case: bool = False
    diacritics: bool = False


LOOSE = Exactness()


@dataclass(frozen=True, slots=True)
class TextLanguage:
    """A language by its English name; "none" has neither stems nor stop words."""

    name: str

    def terms(self, text: str, exactness: Exactness = LOOSE) -> list[str]:
        """Return the terms of the text's words without stop words, in their order."""
        english = self.name == "english"
        pattern = _words(english)
        if len(text) > _SHORT:
            return list(self._counting(pattern.finditer(text), exactness))
        terms_by_word = _term_cache(self.name, exactness)
        if text.isascii():
            words = text.encode().translate(_blanks(english)).decode().split(" ")
        else:
            words = pattern.findall(text)
        terms = list(map(terms_by_word.get, words))
        if None in terms:
            return list(self._counting(pattern.finditer(text), exactness))
        spend(_PER_WORD * len(terms))
        return list(filter(None, terms))

    def _counting(self, words: Iterator[re.Match[str]], exactness: Exactness) -> Iterator[str]:
        terms_by_word = _term_cache(self.name, exactness)
        for match in words:
            word = match[0]
            term = terms_by_word.get(word)
            if term is None:
                if len(terms_by_word) >= _REMEMBERED:
                    terms_by_word.clear()
                    terms_by_word[""] = ""
                term = terms_by_word[word] = _term(self.name, word, exactness)
                spend(_PER_STEM)
            else:
                spend(_PER_WORD)
            if term:
                yield term


@cache
def words_of(language: TextLanguage) -> Words:
    """Return the words of a language, with the keys of their terms at no sensitivity to case or diacritics."""
    pattern = _words(language.name == "english")
    between = [chr(code) for code in range(128) if pattern.match(chr(code)) is None]
    return Words(between, pattern.findall, partial(_key_of, language.name))


def _key_of(language: str, word: str) -> bytes:
    spend(_PER_STEM)
    term = _term(language, word, LOOSE)
    return encode_key(string_value(term)) if term else b""


def language_named(name: str) -> TextLanguage | None:
    """Return the language of a name or of a two-letter code, in any case; None if it is not known."""
    language_name = name.lower()
    language_name = _NAMES.get(language_name, language_name)
    return TextLanguage(language_name) if language_name == "none" or language_name in STOP_WORDS else None


@lru_cache(maxsize=2)
def _words(with_apostrophes: bool) -> re.Pattern[str]:
    between = icu.UnicodeSet(_BETWEEN)
    if with_apostrophes:
        between.remove("'")
    ranges = (
        f"{re.escape(between.getRangeStart(index))}-{re.escape(between.getRangeEnd(index))}"
        for index in range(between.getRangeCount())
    )
    return re.compile(f"[^{''.join(ranges)}]+")


@lru_cache(maxsize=2)
def _blanks(with_apostrophes: bool) -> bytes:
    """Return a translation table that blanks the ASCII separators: splitting at blanks is faster than a search for
    words.
    """
    pattern = _words(with_apostrophes)
    return bytes(ord(" ") if code < 128 and pattern.match(chr(code)) is None else code for code in range(256))


@cache
def _term_cache(language: str, exactness: Exactness) -> dict[str, str]:
    """Return the cache of words with their terms; the empty word between two separators has none."""
    return {"": ""}


def _term(language: str, word: str, exactness: Exactness) -> str:
    """Return the term of a word; the empty text for a stop word."""
    lower = _lower(language, word)
    if lower in STOP_WORDS.get(language, ()):
        return ""
    term = word if exactness.case else lower
    if language != "none":
        term = cast("str", _stemmer(language).stemWord(term))
    return term if exactness.diacritics else without_diacritics(term)


def _lower(language: str, word: str) -> str:
    if language == "turkish":
        word = word.replace("I", "\u0131").replace("\u0130", "i")
    return word.lower()


@lru_cache(maxsize=len(_NAMES))
def _stemmer(language: str) -> Any:
    return snowballstemmer.stemmer(language)


def without_diacritics(text: str) -> str:
    """Return the text without the diacritics of its letters."""
    if text.isascii():
        return text
    # The joiners of a safe text are marks themselves.
    decomposition = unicodedata.normalize("NFD", stream_safe(text))
    return unicodedata.normalize(
        "NFC", "".join(character for character in decomposition if unicodedata.category(character) != "Mn")
    )


def compared(text: str, exactness: Exactness) -> str:
    """Return the normal form of a text for the comparison of phrases."""
    text = text if exactness.case else text.lower()
    return text if exactness.diacritics else without_diacritics(text)
