"""Terms of texts and searches for them; `tests/differential/text_search` has cases judged by a real server."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code, CommandError
from docstore.query.text.languages import LOOSE, Exactness, TextLanguage, language_named
from docstore.query.text.search import TextMatcher, parse_search
from docstore.query.text.terms import TextKeys
from tests.unit.query.raw import raw

ENGLISH = TextLanguage("english")
EXACT = Exactness(case=True, diacritics=True)


def keys(*, language: str = "english", **weights: int) -> TextKeys:
    return TextKeys(tuple(sorted(weights.items())), TextLanguage(language))


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("The quick, brown FOXES!", "english", ["quick", "brown", "fox"]),
        ("it's the dog's e-mail; foo_bar", "english", ["dog", "e", "mail", "foo_bar"]),
        ("it's the", "none", ["it", "s", "the"]),
        ("les chevaux mangeaient", "french", ["cheval", "mang"]),
        ("Caf\u00e9 cafe\u0301", "english", ["cafe", "cafe"]),
        ("\u00abquoted\u00bb words\u2014dashes\u2026", "english", ["quot", "word", "dash"]),
        ("", "english", []),
    ],
)
def test_a_text_is_taken_apart(text: str, language: str, terms: list[str]) -> None:
    assert list(TextLanguage(language).terms(text)) == terms


def test_case_and_diacritics_count_where_they_are_asked_for() -> None:
    assert list(ENGLISH.terms("The Running Caf\u00e9", EXACT)) == ["Run", "Caf\u00e9"]


def test_languages_have_names_and_codes() -> None:
    assert [language_named(name) for name in ("EN", "English", "none")] == [ENGLISH, ENGLISH, TextLanguage("none")]
    assert language_named("klingon") is None


@pytest.mark.parametrize(
    ("document", "scores"),
    [
        ({"t": "The quick brown fox"}, {"quick": 2 / 3, "brown": 2 / 3, "fox": 2 / 3}),
        ({"t": "fox fox fox fox"}, {"fox": 1.875}),
        ({"t": "quick quick brown"}, {"quick": 1.25, "brown": 2 / 3}),
        ({"t": "Fox"}, {"fox": 1.1}),
        ({"t": ["one two", "two three three"]}, {"one": 0.75, "two": 0.75 + 2 / 3, "three": 1.25}),
        ({"t": 5, "u": "not here"}, {}),
    ],
)
def test_the_terms_of_a_document_have_scores(document: dict[str, Any], scores: dict[str, float]) -> None:
    assert keys(t=1).scores(raw(document)) == pytest.approx(scores)


def test_fields_have_weights_and_documents_languages() -> None:
    nested = TextKeys((("a.t", 10), ("b", 3)), ENGLISH)
    assert nested.scores(raw({"a": [{"t": "fox"}, {"t": "fox dog"}], "b": ["dog", "cat"]})) == pytest.approx(
        {"fox": 18.5, "dog": 10.8, "cat": 3.3}
    )
    assert nested.scores(raw({"a": {"t": "running", "language": "none"}, "b": "running"})) == pytest.approx(
        {"running": 11.0, "run": 3.0}
    )
    everywhere = TextKeys((("$**", 1), ("a", 5)), ENGLISH)
    found = everywhere.scores(raw({"_id": "fox", "a": "fox", "b": [{"c": "dog"}], "language": "english"}))
    assert found == pytest.approx({"fox": 1.1 + 5.5, "dog": 1.1})


def test_a_score_is_the_sum_of_those_of_its_terms() -> None:
    """However the texts are come by, and whatever stands between the words."""
    stored: list[dict[str, Any]] = [
        {"t": "fox dog\tfox--cat's"}, {"t": "fox"}, {"t": ["fox", "the dog"]}, {"t": {"t": "fox"}},
        {"t": "f\u00f6x fox"},
        {"t": "running fox", "language": "none"}, {"a": "fox"}, {"t": 5}, {"t": ""}, {"t": "...!fox\x1cdog\x1ffox"},
    ]  # fmt: skip
    for index in (keys(t=1), keys(t=3, u=2), TextKeys((("$**", 1),), ENGLISH), TextKeys((("t.t", 2),), ENGLISH)):
        for document in stored:
            scores = index.scores(raw(document))
            assert index.scorer(["dog", "fox", "run"])(raw(document)) == sum(
                scores.get(term, 0.0) for term in ("dog", "fox", "run")
            )
    assert keys(t=1).scores(raw({"t": "x", "a": {"language": 5}})).keys() == {"x"}
    assert keys(t=1).scores(raw({"t": {"language": 5}})) == {}
    assert list(ENGLISH.terms("a\x1cb ,'d' \x7fe")) == ["a\x1cb", "d", "\x7fe"]


@pytest.mark.parametrize(("language", "code"), [(5, 17261), ("klingon", 17262)])
def test_a_document_names_its_language_rightly(language: object, code: int) -> None:
    with pytest.raises(CommandError) as refused:
        keys(t=1).scores(raw({"t": "x", "language": language}))
    assert refused.value.code == code


def test_a_search_is_taken_apart() -> None:
    search = parse_search('quick -dog "brown fox" -"x y" The - cat e-mail --bird "open', ENGLISH, LOOSE)
    assert search.terms == search.looked_up == {"quick", "brown", "fox", "cat", "e", "mail", "open"}
    assert search.negated == {"dog", "bird"}
    assert (search.phrases, search.negated_phrases) == (("brown fox",), ("x y",))
    assert not search.is_plain
    assert parse_search("quick fox", ENGLISH, LOOSE).is_plain


@pytest.mark.parametrize(
    ("text", "exactness", "found"),
    [
        ("fox", LOOSE, True),
        ("bear", LOOSE, False),
        ("fox -brown", LOOSE, False),
        ('"quick BROWN"', LOOSE, True),
        ('"brown quick"', LOOSE, False),
        ('fox -"brown fox"', LOOSE, False),
        ("Fox", Exactness(case=True), False),
        ("fox", Exactness(case=True), True),
        ("cafe", LOOSE, True),
        ("cafe", Exactness(diacritics=True), False),
    ],
)
def test_what_a_search_finds(text: str, exactness: Exactness, found: bool) -> None:
    document = raw({"t": "The quick brown fox", "u": "caf\u00e9"})
    assert parse_search(text, ENGLISH, exactness).finds(keys(t=1, u=1), document) is found


def test_nothing_is_known_before_there_is_an_index() -> None:
    matcher = TextMatcher()
    assert matcher.language is None
    with pytest.raises(CommandError) as refused:
        matcher.score(raw({"t": "x"}))
    assert refused.value.code == Code.IndexNotFound
    matcher.settle("fox quick", None, LOOSE, keys(t=2))
    assert matcher.language == "english"
    assert matcher.score(raw({"t": "The quick brown fox"})) == pytest.approx(8 / 3)
