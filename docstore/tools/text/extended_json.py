"""Documents as extended JSON v2, read and written.

Canonical text names the type of every value; relaxed text has plain numbers, and dates of the years 1970 to 9999 as
text. Both are read. The round trip between BSON and canonical text is lossless.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import click
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.json_util import JSONMode, JSONOptions, dumps, object_pairs_hook

from docstore.tools.limits import MAX_TEXT_CHARACTERS

EXACT: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
"""Decodes documents so that nothing of a value is lost."""

MALFORMED = (ValueError, TypeError, KeyError, OverflowError, BSONError)
"""The errors of malformed extended JSON."""

_CANONICAL = JSONOptions(json_mode=JSONMode.CANONICAL, datetime_conversion=DatetimeConversion.DATETIME_MS)
_RELAXED = JSONOptions(json_mode=JSONMode.RELAXED, datetime_conversion=DatetimeConversion.DATETIME_MS)
_SPACE = " \t\r\n"
_PIECE = 1 << 16


def as_json(value: Any, *, relaxed: bool = False, pretty: bool = False) -> str:
    """Return a document, or a value, as one line; if pretty, each field has a line of its own, indented by tabs."""
    options = _RELAXED if relaxed else _CANONICAL
    if pretty:
        return dumps(value, json_options=options, indent="\t", separators=(",", ": "), ensure_ascii=False)
    return dumps(value, json_options=options, separators=(",", ":"), ensure_ascii=False)


def document_of(text: str) -> dict[str, Any]:
    """Parse one document. Errors: MALFORMED."""
    document = _decoder().decode(text)
    if not isinstance(document, dict):
        raise ValueError("it is no document")
    return document


def document_option(text: str, option: str) -> dict[str, Any]:
    """Parse the document in an option. Errors: click.UsageError."""
    try:
        return document_of(text)
    except MALFORMED as error:
        raise click.UsageError(f"{option} is no extended JSON: {error}") from error


def documents_of(file: IO[str], *, is_array: bool) -> Iterator[dict[str, Any]]:
    """Yield the documents of a text: concatenated, or the elements of one array. Errors: MALFORMED."""
    text = _Text(file)
    if not is_array:
        while text.next_character():
            yield text.document()
        return
    if text.next_character() != "[":
        raise ValueError("the text is no array")
    text.position += 1
    if text.next_character() != "]":
        yield text.document()
        while text.next_character() == ",":
            text.position += 1
            yield text.document()
    if text.next_character() != "]":
        raise ValueError("the array has no end")
    text.position += 1
    if text.next_character():
        raise ValueError("there is more behind the array")


class _Text:
    """The text read from a file and not parsed yet: `buffer` from `position` on."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._decoder = _decoder()
        self._buffer = ""
        self.position = 0

    def next_character(self) -> str:
        """Move `position` to the next character that is no space, and return that; "" at the end."""
        while True:
            while self.position < len(self._buffer):
                if self._buffer[self.position] not in _SPACE:
                    return self._buffer[self.position]
                self.position += 1
            if not self._read_on(_PIECE):
                return ""

    def document(self) -> dict[str, Any]:
        self.next_character()
        while True:
            try:
                document, self.position = self._decoder.raw_decode(self._buffer, self.position)
                break
            except json.JSONDecodeError:
                # The document may be incomplete: read on, twice as much each time, so that a long one is parsed few
                # times.
                length = len(self._buffer) - self.position
                if length > MAX_TEXT_CHARACTERS or not self._read_on(max(length, _PIECE)):
                    raise
        if not isinstance(document, dict):
            raise ValueError(f"{str(document)[:40]!r} is no document")
        return document

    def _read_on(self, length: int) -> bool:
        piece = self._file.read(length)
        self._buffer = self._buffer[self.position :] + piece
        self.position = 0
        return bool(piece)


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=lambda pairs: object_pairs_hook(pairs, _CANONICAL), parse_constant=_refuse_constant
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
