"""Texts of many combining marks are normalised in linear time, and mean what they meant."""

from __future__ import annotations

import time
import unicodedata

import bson
import pytest

from docstore.combining_marks import MAX_COMBINING_MARKS, stream_safe
from docstore.query.text.languages import without_diacritics
from docstore.query.value.collation import parse_collation

MARKS = "\u0345\u0300\u0316\u0334"


@pytest.mark.parametrize(
    "text", ["", "plain", "e\u0301" * 1000, "\u00e9" * 1000, "e" + "\u0301" * MAX_COMBINING_MARKS, "\uac00\u11a8" * 50]
)
def test_texts_of_languages_stay_as_they_are(text: str) -> None:
    assert stream_safe(text) == text


@pytest.mark.parametrize("marks", [MARKS * 100, "\u0344" * 100, "\u0300" * 20_000])
def test_long_runs_are_broken_up_and_nothing_else_is_changed(marks: str) -> None:
    safe = stream_safe(f"e{marks}e")
    assert safe.replace("\u034f", "") == f"e{marks}e"
    longest = max(len(run) for run in unicodedata.normalize("NFD", safe).replace("e", "\u034f").split("\u034f"))
    assert longest <= 2 * MAX_COMBINING_MARKS


def test_normalising_takes_linear_time() -> None:
    text = "a" + MARKS * 16_000
    started = time.thread_time()
    assert without_diacritics(text) == "a"
    collation = parse_collation(bson.encode({"locale": "en", "normalization": True}))
    collation.fold((2, (len(text.encode()) + 1).to_bytes(4, "little") + text.encode() + b"\0"))
    assert time.thread_time() - started < 2.0
