"""Documents from text: extended JSON, or rows of CSV and TSV whose columns are fields.

A row has as many values as there are columns, or fewer; those behind the last column go to fields that are named by
their place, `field3`. Quotes mean something in CSV alone.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from docstore.tools.text.columns import Column, guess, plain_column, typed_column
from docstore.tools.text.extended_json import MALFORMED, documents_of


class UnreadableText(Exception):
    """The text is not in the declared format; the message names the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFormat:
    """The format of the text. `fields`: names of columns, with types if `has_types`; empty: those of the first row."""

    kind: str
    is_array: bool
    fields: tuple[str, ...]
    has_types: bool
    grace: str
    """The treatment of a value that does not fit its column's type: autoCast, skipField, skipRow or stop."""
    ignores_blanks: bool
    has_indexes: bool


def read_documents(file: IO[str], form: InputFormat, skipped: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield the documents of a text; `skipped` gets messages about skipped rows and fields. Errors: UnreadableText."""
    documents = documents_of(file, is_array=form.is_array) if form.kind == "json" else _of_rows(file, form, skipped)
    count = 0
    while True:
        try:
            document = next(documents)
        except StopIteration:
            return
        except (*MALFORMED, csv.Error) as error:
            raise UnreadableText(f"error processing document #{count + 1}: {error}") from error
        count += 1
        yield document


def _of_rows(file: IO[str], form: InputFormat, skipped: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    rows = _csv_rows(file) if form.kind == "csv" else _tsv_rows(file)
    names = form.fields or tuple(next(rows, ()))
    if not names:
        raise UnreadableText("there is no header line")
    columns = _columns(names, has_types=form.has_types)
    for number, row in enumerate(rows, 1):
        if len(row) > len(columns):
            columns = [*columns, *(plain_column(f"field{position}") for position in range(len(columns), len(row)))]
            _check([column.path for column in columns])
        document = _document(columns, row, form, number, skipped)
        if document is not None:
            yield document


def _csv_rows(file: IO[str]) -> Iterator[list[str]]:
    csv.field_size_limit(sys.maxsize)
    return (row for row in csv.reader(file, strict=True) if row)


def _tsv_rows(file: IO[str]) -> Iterator[list[str]]:
    return (line.rstrip("\r\n").split("\t") for line in file if line.strip("\r\n"))


def field_specifications(text: str | None, file: Path | None) -> tuple[str, ...]:
    """Return the names of columns: `--fields`, where a comma in parentheses is part of a type, or the lines of
    `--fieldFile`.
    """
    names, depth = [""] if text else [], 0
    for character in text or "":
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += character
    if file is not None:
        names += [line for line in file.read_text("utf-8").splitlines() if line.strip()]
    return tuple(name.strip() for name in names)


def _columns(names: Sequence[str], *, has_types: bool) -> list[Column]:
    try:
        columns = [typed_column(name) if has_types else plain_column(name) for name in names]
    except ValueError as error:
        raise UnreadableText(str(error)) from error
    _check([column.path for column in columns])
    return columns


def _check(paths: Sequence[tuple[str, ...]]) -> None:
    """Check that each field is in one column, and that none contains another."""
    checked_paths: set[tuple[str, ...]] = set()
    for path in sorted(paths):
        if not all(path):
            raise UnreadableText(f"the field {'.'.join(path)!r} has an empty name in it")
        if any(path[:length] in checked_paths for length in range(1, len(path) + 1)):
            raise UnreadableText(f"the field {'.'.join(path)!r} is there twice, or is part of another one")
        checked_paths.add(path)


def _document(
    columns: Sequence[Column], row: Sequence[str], form: InputFormat, number: int, skipped: Callable[[str], None]
) -> dict[str, Any] | None:
    document: dict[str, Any] = {}
    for column, text in zip(columns, row, strict=False):
        if form.ignores_blanks and not text:
            continue
        try:
            value = column.read(text)
        except (ValueError, OverflowError) as error:
            problem = f"row {number}, field {'.'.join(column.path)}: {error}"
            if form.grace == "stop":
                raise UnreadableText(problem) from error
            if form.grace == "autoCast":
                value = guess(text)
            else:
                skipped(f"skipping {problem}")
                if form.grace == "skipRow":
                    return None
                continue
        _set_field(document, column.path, value, has_indexes=form.has_indexes)
    return document


def _set_field(document: dict[str, Any], path: tuple[str, ...], value: Any, *, has_indexes: bool) -> None:
    """Set a field inside of documents, and where names are indexes, of arrays, which are filled from the beginning."""
    target: Any = document
    for name, following in zip(path, (*path[1:], None), strict=True):
        child: Any = value
        if following is not None:
            child = [] if has_indexes and following.isdecimal() else {}
        if isinstance(target, list):
            index = int(name) if name.isdecimal() else -1
            if index == len(target):
                target.append(child)
            elif not 0 <= index < len(target):
                raise UnreadableText(f"the field {'.'.join(path)!r} leaves out elements of its array")
            target = target[index]
        else:
            target = target.setdefault(name, child)
