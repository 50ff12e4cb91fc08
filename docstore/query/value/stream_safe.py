"""Texts that are normalised in linear time.

Normalisation sorts each run of combining marks, in time quadratic in its length. No language has long runs; the
Stream-Safe Text Format of Unicode (UAX #15) allows 30 marks, and breaks longer runs up by a character without meaning.
"""

from __future__ import annotations

import unicodedata

from docstore.bson.allowance import spend

MAX_MARKS = 30
_JOINER = "\u034f"
"""The combining grapheme joiner, a mark that nothing is sorted across."""
_WINDOW = 4096
"""Letters that are looked at together; a run across two windows may have twice as many marks."""
_COST = 8
"""Units of work charged for a letter."""


def stream_safe(text: str) -> str:
    """Return the text with its long runs of combining marks broken up."""
    if len(text) <= MAX_MARKS or text.isascii():
        return text
    return "".join(_broken_up(text[at : at + _WINDOW]) for at in range(0, len(text), _WINDOW))


def _broken_up(text: str) -> str:
    spend(_COST * len(text))
    outlines = {letter: _outline(letter) for letter in set(text)}
    if "m" * (MAX_MARKS + 1) not in "".join([outlines[letter] for letter in text]):
        return text
    letters: list[str] = []
    run = 0
    for letter in text:
        outline = outlines[letter]
        if outline.startswith("m") and run + len(outline) > MAX_MARKS:
            letters.append(_JOINER)
            run = 0
        letters.append(letter)
        run = run + len(outline) if outline == "m" * len(outline) else len(outline) - len(outline.rstrip("m"))
    return "".join(letters)


def _outline(letter: str) -> str:
    """Return "m" for each combining mark of a letter's decomposition, and "." for each other character."""
    return "".join("m" if unicodedata.combining(part) else "." for part in unicodedata.normalize("NFKD", letter))
