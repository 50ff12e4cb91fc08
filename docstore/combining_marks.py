"""Runs of combining marks in texts, which normalisation sorts in time quadratic in their length.

No language has long runs: the Stream-Safe Text Format of Unicode (UAX #15) allows 30 marks, and breaks longer runs up
by a character without meaning.
"""

from __future__ import annotations

import unicodedata

from docstore.bson.allowance import spend

MAX_COMBINING_MARKS = 30
_TOO_MANY = "m" * (MAX_COMBINING_MARKS + 1)
_JOINER = "\u034f"
"""The combining grapheme joiner, a mark that nothing is sorted across."""
_WINDOW = 4096
"""Letters that are looked at together; a run across two windows may have twice as many marks."""
_COST = 8
"""Units of work charged for a letter."""


def has_long_run(text: str) -> bool:
    """Return whether the decomposed text has more than `MAX_COMBINING_MARKS` combining marks in a row."""
    return _TOO_MANY in text.translate({ord(letter): _outline(letter) for letter in set(text)})


def stream_safe(text: str) -> str:
    """Return the text with its long runs of combining marks broken up."""
    if len(text) <= MAX_COMBINING_MARKS or text.isascii():
        return text
    return "".join(_broken_up(text[at : at + _WINDOW]) for at in range(0, len(text), _WINDOW))


def _broken_up(text: str) -> str:
    spend(_COST * len(text))
    if not has_long_run(text):
        return text
    letters: list[str] = []
    run = 0
    for letter in text:
        outline = _outline(letter)
        if outline.startswith("m") and run + len(outline) > MAX_COMBINING_MARKS:
            letters.append(_JOINER)
            run = 0
        letters.append(letter)
        run = run + len(outline) if outline == "m" * len(outline) else len(outline) - len(outline.rstrip("m"))
    return "".join(letters)


def _outline(letter: str) -> str:
    """Return "m" for each combining mark of a letter's decomposition, and "." for each other character."""
    return "".join("m" if unicodedata.combining(part) else "." for part in unicodedata.normalize("NFKD", letter))
