"""SASLprep (RFC 4013): equal passwords are equal bytes, however they were typed."""

from __future__ import annotations

import stringprep
import unicodedata

from docstore.combining_marks import MAX_COMBINING_MARKS, has_long_run

_PROHIBITED = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
    stringprep.in_table_c9,
)  # fmt: skip


MAX_LETTERS = 16_384
"""The maximal length of a text that is not of printable ASCII, which takes several passes over its letters."""


class NotPreparable(ValueError):
    """A text that no password may be: `reason` is "prohibited", "unassigned", "bidi", "empty", "long" or "marks"."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def prepared(text: str, *, stored: bool = False) -> str:
    """Return the text in its canonical form. Errors: NotPreparable.

    `stored`: the result is stored, so letters unknown to Unicode 3.2 are refused too, because their mapping may
    change.
    """
    if text.isascii() and text.isprintable():
        return text
    if len(text) > MAX_LETTERS:
        raise NotPreparable("long", f"the password has more than {MAX_LETTERS} characters, and not all are ASCII")
    mapped = text.translate({ord(letter): _mapped(letter) for letter in set(text)})
    if has_long_run(mapped):
        raise NotPreparable("marks", f"the password has more than {MAX_COMBINING_MARKS} combining marks in a row")
    canonical_text = unicodedata.normalize("NFKC", mapped)
    letters = set(canonical_text)
    if stored and any(map(stringprep.in_table_a1, letters)):
        raise NotPreparable("unassigned", "the password has a character that had no meaning in Unicode 3.2")
    if any(test(letter) for letter in letters for test in _PROHIBITED):
        raise NotPreparable("prohibited", "the password has a character that no password may have")
    if any(map(stringprep.in_table_d1, letters)) and (
        any(map(stringprep.in_table_d2, letters))
        or not (stringprep.in_table_d1(canonical_text[0]) and stringprep.in_table_d1(canonical_text[-1]))
    ):
        raise NotPreparable("bidi", "the password mixes directions of writing")
    if stored and not canonical_text:
        raise NotPreparable("empty", "nothing of the password is left")
    return canonical_text


def _mapped(letter: str) -> str:
    """Return a letter as RFC 4013 maps it, before normalisation."""
    if stringprep.in_table_b1(letter):
        return ""
    return " " if stringprep.in_table_c12(letter) else letter
