"""The languages of text indexes: how a text is taken apart into words, and what of a word counts.

TextSearch lie between dashes, quotation marks, punctuation, pattern characters and white space, as Unicode has them; in
English an apostrophe is part of a word. A word counts as its stem, without regard to case and diacritics unless these
are asked for.
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
"""The characters of a text whose words may be looked up without a look at the clock."""
_PER_WORD, _PER_STEM = 16, 512
"""What it costs to look at a word, and to find its stem."""


@dataclass(frozen=True, slots=True)
class Exactness:
    """What counts besides the letters."""

    case: bool = False
    diacritics: bool = False


LOOSE = Exactness()


@dataclass(frozen=True, slots=True)
class TextLanguage:
    """A language by its English name; "none" has neither stems nor words to pass over."""

    name: str

    def terms(self, text: str, exactness: Exactness = LOOSE) -> list[str]:
        """What counts of each word of the text that is not passed over, in their order."""
        english = self.name == "english"
        pattern = _words(english)
        if len(text) > _SHORT:
            return list(self._counting(pattern.finditer(text), exactness))
        known = _known(self.name, exactness)
        if text.isascii():
            words = text.encode().translate(_blanks(english)).decode().split(" ")
        else:
            words = pattern.findall(text)
        terms = list(map(known.get, words))
        if None in terms:
            return list(self._counting(pattern.finditer(text), exactness))
        spend(_PER_WORD * len(terms))
        return list(filter(None, terms))

    def _counting(self, words: Iterator[re.Match[str]], exactness: Exactness) -> Iterator[str]:
        known = _known(self.name, exactness)
        for found in words:
            word = found[0]
            term = known.get(word)
            if term is None:
                if len(known) >= _REMEMBERED:
                    known.clear()
                    known[""] = ""
                term = known[word] = _term(self.name, word, exactness)
                spend(_PER_STEM)
            else:
                spend(_PER_WORD)
            if term:
                yield term


@cache
def words_of(language: TextLanguage) -> Words:
    """The words of a language, with the keys of what counts of them when nothing but the letters does."""
    pattern = _words(language.name == "english")
    between = [chr(code) for code in range(128) if pattern.match(chr(code)) is None]
    return Words(between, pattern.findall, partial(_key_of, language.name))


def _key_of(language: str, word: str) -> bytes:
    spend(_PER_STEM)
    term = _term(language, word, LOOSE)
    return encode_key(string_value(term)) if term else b""


def language_named(name: str) -> TextLanguage | None:
    """The language of a name or of a code of two letters, in any case; None for one that is not known."""
    found = name.lower()
    found = _NAMES.get(found, found)
    return TextLanguage(found) if found == "none" or found in STOP_WORDS else None


@lru_cache(maxsize=2)
def _words(with_apostrophes: bool) -> re.Pattern[str]:
    between = icu.UnicodeSet(_BETWEEN)
    if with_apostrophes:
        between.remove("'")
    ranges = (
        f"{re.escape(between.getRangeStart(place))}-{re.escape(between.getRangeEnd(place))}"
        for place in range(between.getRangeCount())
    )
    return re.compile(f"[^{''.join(ranges)}]+")


@lru_cache(maxsize=2)
def _blanks(with_apostrophes: bool) -> bytes:
    """What makes blanks of the characters of ASCII that stand between words: that is faster than to look for words."""
    pattern = _words(with_apostrophes)
    return bytes(ord(" ") if code < 128 and pattern.match(chr(code)) is None else code for code in range(256))


@cache
def _known(language: str, exactness: Exactness) -> dict[str, str]:
    """Words that have been met, with what counts of them; nothing does of what is between two separators."""
    return {"": ""}


def _term(language: str, word: str, exactness: Exactness) -> str:
    """The empty text for a word that is passed over."""
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
    """The text with its letters bare."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(each for each in apart if unicodedata.category(each) != "Mn"))


def compared(text: str, exactness: Exactness) -> str:
    """What of a text counts where it is compared as a whole."""
    text = text if exactness.case else text.lower()
    return text if exactness.diacritics else without_diacritics(text)
