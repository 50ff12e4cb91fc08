from __future__ import annotations

import re
import time

import pytest
from bson import Regex, encode
from hypothesis import given
from hypothesis import strategies as st

from docstore.bson import allowance
from docstore.commands.supervision import SUPERVISION
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.regex import Literal, compile_pattern, compile_regex, literal_of, literal_prefix


@pytest.mark.parametrize("pattern", ["^ab", "^a.*c$", "^.+b", "^a.*?", "a.c$", "x", "a\\.b", "", "^$", "^a b$"])
@pytest.mark.parametrize("subject", ["", "ab", "abc", "xabc", "a.b", "abc\n", "a\nc", "a b", "é", "a\u2028c"])
def test_the_quick_way_means_the_same_as_pcre(pattern: str, subject: str) -> None:
    """Plain patterns are searched by another engine; the option `u` changes nothing but keeps them from it."""
    assert bool(compile_regex(pattern, "")(subject)) is bool(compile_regex(pattern, "u")(subject))


def test_classes_mean_ascii_and_case_means_unicode() -> None:
    assert not compile_regex(r"^\w$", "")("é")
    assert not compile_regex(r"^\d$", "")("٣")
    assert compile_regex("^É$", "i")("é")


def test_a_pattern_that_is_too_much_for_machine_code_is_searched_without() -> None:
    search = compile_regex("(" * 200 + "a" + ")" * 200 + "(b)" * 5_000, "")
    assert search("a" + "b" * 5_000)
    assert not search("a" + "b" * 4_999)


def test_options_combine() -> None:
    assert compile_regex("^ B # second line", "mxi")("a\nb")
    assert compile_regex("a.b", "s")("a\nb")


def test_a_pattern_that_backtracks_without_end_does_not_match_and_costs_little() -> None:
    search = compile_regex("(a+)+$", "")
    started = time.thread_time()

    assert not search("a" * 60 + "b")

    assert time.thread_time() - started < 0.5


class Ended(Exception):
    """The request was ended."""


@pytest.mark.parametrize(
    "pattern",
    [
        r"(.*)\1\d", r"(?=(.*))\1\d", r"(?=(a+))a*b\1", r"(?>a*)[bc]", r"a?+a*+[bc]", r".{0,60000}\d",
        r"[a-b]{0,50}[a-b]{0,50}[a-b]{0,50}\d", r"(?:a|b)+[cd]", "(?=(.*))(?:" + r"\1\d|" * 500 + "x)",
        r"(?<!x)(?1)(a*)\d",
    ],
)  # fmt: skip
def test_a_search_that_walks_what_its_limit_does_not_count_ends_with_its_request(pattern: str) -> None:
    looks = 0

    def look(_spent: int) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise Ended

    search = compile_regex(pattern, "")
    allowance.install(look)
    try:
        started = time.thread_time()
        with pytest.raises(Ended):
            search("a" * 100_000 + "-1bdx")
        assert time.thread_time() - started < 0.5
    finally:
        allowance.install(SUPERVISION.look)


@pytest.mark.parametrize("pattern", [r"(\w)\1z", r"foo(?=bar)", r"x{2,500}y", r"(?>ab+)c", r"(?:a|b)+z"])
def test_a_charged_search_finds_what_others_find(pattern: str) -> None:
    for text in ("ffz", "foobar", "xxxy", "abbc", "abz", "nothing"):
        long_text = "-" * 30_000 + text
        assert compile_regex(pattern, "")(long_text) is (re.search(pattern, text) is not None)
        found = compile_pattern(pattern, "").search(long_text, 29_000)
        assert (found is None) is (re.search(pattern, text) is None)


@pytest.mark.parametrize(
    ("pattern", "options", "expected"),
    [
        ("^abc", "", ("abc", True)),
        ("^abc.*", "s", ("abc", True)),
        ("^abc.*", "", ("abc", False)),
        ("^abc*", "", ("ab", False)),
        ("^ab?c", "", ("a", False)),
        ("^a\\.b", "", ("a.b", True)),
        ("^a\\.*", "", ("a", False)),
        ("^a|b", "", ("", False)),
        ("abc", "", ("", False)),
        ("^abc", "i", ("", False)),
        ("^abc", "m", ("", False)),
        ("^a{2}", "", ("", False)),
        ("^(ab)", "", ("", False)),
    ],
)
def test_the_literal_beginning_of_a_pattern(pattern: str, options: str, expected: tuple[str, bool]) -> None:
    assert literal_prefix(pattern, options) == expected


@pytest.mark.parametrize(
    ("pattern", "options", "expected"),
    [
        ("abc", "", Literal(b"abc", False, False, False)),
        ("^abc", "", Literal(b"abc", True, False, False)),
        ("77$", "s", Literal(b"77", False, True, False)),
        ("^a\\.b$", "", Literal(b"a.b", True, True, False)),
        ("a\\$", "", Literal(b"a$", False, False, False)),
        ("a\\\\", "", Literal(b"a\\", False, False, False)),
        ("aBc", "i", Literal(b"aBc", False, False, True)),
        ("^abc$", "siu", Literal(b"abc", True, True, True)),
        ("abc", "u", Literal(b"abc", False, False, False)),
        ("a.c", "", None),
        ("ab*", "", None),
        ("a|b", "", None),
        ("a$", "m", None),
        ("a$", "im", None),
        ("a", "x", None),
        ("\\d", "", None),
        ("é", "", None),
        ("^$", "", None),
    ],
)
def test_the_text_that_is_all_of_a_pattern(pattern: str, options: str, expected: Literal | None) -> None:
    assert literal_of(pattern, options) == expected


_TEXTS = st.text("ab.\n\0é", max_size=6)


@given(
    start=st.sampled_from(["", "^"]),
    text=st.text("ab.", min_size=1, max_size=3),
    end=st.sampled_from(["", "$"]),
    subject=st.one_of(_TEXTS, st.builds(lambda more, text: more * 40 + text, _TEXTS, _TEXTS)),
)
def test_a_text_is_found_where_its_pattern_is(start: str, text: str, end: str, subject: str) -> None:
    pattern = start + text.replace(".", "\\.") + end
    matches = compile_filter(parse_filter(encode({"a": Regex(pattern)}))).matches

    assert literal_of(pattern, "") is not None
    assert matches(encode({"a": subject})) is bool(compile_regex(pattern, "u")(subject))
    assert matches(encode({"a": ["-", subject]})) is bool(compile_regex(pattern, "u")(subject))


_LETTERS = "aAkKsSzZ@`[{.\u212a\u017f\u00e9\n"


@given(
    start=st.sampled_from(["", "^"]),
    text=st.text("aAkKsSzZ@.", min_size=1, max_size=3),
    end=st.sampled_from(["", "$"]),
    subject=st.one_of(st.text(_LETTERS, max_size=6), st.text(_LETTERS).map(lambda text: text * 30)),
)
def test_a_text_is_found_in_any_case_where_its_pattern_is(start: str, text: str, end: str, subject: str) -> None:
    """The Kelvin sign and the long s are letters of ASCII in the other case."""
    pattern = start + text.replace(".", "\\.") + end
    matches = compile_filter(parse_filter(encode({"a": Regex(pattern, "i")}))).matches

    literal = literal_of(pattern, "i")
    assert literal is not None
    assert literal.caseless
    assert matches(encode({"a": subject})) is bool(compile_regex(pattern, "i")(subject))
    assert matches(encode({"a": ["-", subject]})) is bool(compile_regex(pattern, "i")(subject))


def test_a_stored_pattern_is_found_by_itself() -> None:
    for pattern, options in (("^ab", ""), ("a.c", "im"), ("ab", "s")):
        matches = compile_filter(parse_filter(encode({"a": Regex(pattern, options)}))).matches
        assert matches(encode({"a": Regex(pattern, options)}))
        assert matches(encode({"a": [1, Regex(pattern, options)]}))
        assert not matches(encode({"a": Regex(pattern + "x", options)}))
        assert not matches(encode({"a": Regex(pattern, "x")}))


def test_many_patterns_of_a_list_find_what_each_of_them_does() -> None:
    patterns = [Regex(f"^x{number}$") for number in range(600)] + [Regex("Y", "i")]
    matches = compile_filter(parse_filter(encode({"a": {"$in": [7, *patterns]}}))).matches

    for found in ("x0", "x599", "ay", ["z", "x300"], Regex("Y", "i"), Regex("^x5$"), 7):
        assert matches(encode({"a": found}))
    for missed in ("x600", Regex("Y"), 8, None):
        assert not matches(encode({"a": missed}))
