"""Terms and scores of texts, read from documents as they are stored, are those of texts taken apart in general."""

from __future__ import annotations

import random
from typing import Any

import bson

from docstore.kernel.keys.encoding import encode_key
from docstore.query.text.languages import LOOSE, TextLanguage, _term, _words, language_named
from docstore.query.text.terms import TextKeys
from docstore.query.value.values import string_value
from tests.unit.kernel.kernels import Kernel

_PIECES = (
    "fox", "Foxes", "running", "the", "dog's", "'", " ", "  ", "-", ".", "\t", "\u00f6", "stra\u00dfe", "\u0130",
    "x\0y", "\u2014", "cat", "cat", "1", "_", "\x1c", '"', "\u00e9t\u00e9",
)  # fmt: skip


def _key(term: str) -> bytes:
    return encode_key(string_value(term))


def _plain(kernel: Kernel, keys: TextKeys) -> Any:
    language = keys.language.name

    def learn(word: str) -> bytes:
        term = _term(language, word, LOOSE)
        return _key(term) if term else b""

    pattern = _words(language == "english")
    between = [chr(code) for code in range(128) if pattern.match(chr(code)) is None]
    words = kernel.text.words.Words(between, pattern.findall, learn)
    return kernel.text.words.PlainTexts(words, dict(keys.weights), keys.override)


def _text(dice: random.Random) -> str:
    return "".join(dice.choice(_PIECES) + dice.choice(("", " ")) for _ in range(dice.randrange(12)))


def _value(dice: random.Random) -> Any:
    texts = _text(dice), _text(dice)
    return dice.choice((texts[0], texts[0], texts[0], list(texts), 5, None, {"t": texts[0]}, "x " * 3000))


def _language(name: str) -> TextLanguage:
    found = language_named(name)
    assert found is not None
    return found


def test_terms_and_scores_of_random_documents(kernel: Kernel) -> None:
    dice = random.Random(1)
    indexes = [
        TextKeys(weights, _language(name), override)
        for name in ("english", "none", "turkish", "french", "german")
        for weights in ((("t", 1),), (("t", 3), ("u", 10)))
        for override in ("language", "u")
    ]
    read = 0
    for index in indexes:
        plain = _plain(kernel, index)
        for _ in range(60):
            document = {name: _value(dice) for name in dice.sample("tuv", dice.randrange(1, 4))}
            if dice.random() < 0.1:
                document["language"] = "none"
            raw = bson.encode(document)
            found = plain.terms(raw)
            if found is None:
                assert (
                    index.override in document
                    or any(isinstance(each, list) for each in document.values())
                    or (any(isinstance(each, str) and len(each) > 4096 for each in document.values()))
                )
                continue
            read += 1
            scores = index.scores(raw)
            assert len(found) == len(set(found))
            assert set(found) == set(map(_key, scores))
            wanted = [*scores, "fox"]
            of_each = kernel.text.words.Scores(plain, list(map(_key, wanted)))
            assert of_each.score_terms(raw) == [scores.get(term, 0.0) for term in wanted]
            assert of_each.sum(raw) == sum(of_each.score_terms(raw))
            assert index.scorer(wanted)(raw) == sum(scores.get(term, 0.0) for term in wanted)
    assert read > 500


def test_words_are_forgotten_when_there_are_many(kernel: Kernel) -> None:
    learned: list[str] = []

    def learn(word: str) -> bytes:
        learned.append(word)
        return word.encode()

    words = kernel.text.words.Words(" ", str.split, learn)
    plain = kernel.text.words.PlainTexts(words, {"t": 1}, "language")
    for number in range((1 << 14) // 8 + 2):
        raw = bson.encode({"t": " ".join(f"w{number}x{each}" for each in range(8))})
        assert len(plain.terms(raw)) == 8
    count = len(learned)
    plain.terms(bson.encode({"t": "w0x0 w0x1"}))
    assert len(learned) == count + 2
