"""Documents as text: lines or an array of extended JSON, or rows of CSV with a column for each requested field."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from bson import ObjectId
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from docstore.tools.text.extended_json import as_json

_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The format of the output. `kind` is json or csv; the other fields are for one of them."""

    kind: str
    relaxed: bool
    is_array: bool
    pretty: bool
    fields: tuple[str, ...]
    has_header: bool


class Output(Protocol):
    """Text of documents in a file."""

    def begin(self) -> None: ...

    def write(self, document: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


def output_to(file: IO[str], form: Format) -> Output:
    return CsvOutput(file, form) if form.kind == "csv" else JsonOutput(file, form)


class JsonOutput:
    """A document a line, or one array of them."""

    def __init__(self, file: IO[str], form: Format) -> None:
        self._file, self._form = file, form
        self._is_first = True

    def begin(self) -> None:
        if self._form.is_array:
            self._file.write("[")

    def write(self, document: dict[str, Any]) -> None:
        if self._form.is_array and not self._is_first:
            self._file.write(",\n")
        self._is_first = False
        self._file.write(as_json(document, relaxed=self._form.relaxed, pretty=self._form.pretty))
        if not self._form.is_array:
            self._file.write("\n")

    def end(self) -> None:
        if self._form.is_array:
            self._file.write("]\n")


class CsvOutput:
    """A row a document, after one with the names of the fields."""

    def __init__(self, file: IO[str], form: Format) -> None:
        self._form = form
        self._rows = csv.writer(file, lineterminator="\n")

    def begin(self) -> None:
        if self._form.has_header:
            self._rows.writerow(self._form.fields)

    def write(self, document: dict[str, Any]) -> None:
        values = (_field_of(document, path) for path in self._form.fields)
        self._rows.writerow([_cell(value, self._form) for value in values])

    def end(self) -> None:
        pass


def field_list(fields: str | None, file: Path | None) -> tuple[str, ...]:
    """The fields that `--fields` or the lines of `--fieldFile` name."""
    names = fields.split(",") if fields is not None else []
    if file is not None:
        names += file.read_text("utf-8").splitlines()
    return tuple(name.strip() for name in names if name.strip())


def projection_of(fields: Sequence[str]) -> dict[str, int]:
    """Return the projection of some fields. For CSV `a.0` is an element, but not for a projection, where a field and
    its subfield exclude each other.
    """
    paths = {_before_index(path) for path in fields}
    return {path: 1 for path in sorted(paths) if not any(path.startswith(other + ".") for other in paths)}


def _before_index(path: str) -> str:
    names = path.split(".")
    for position, name in enumerate(names[1:], 1):
        if name.isdecimal():
            return ".".join(names[:position])
    return path


def _field_of(document: dict[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value


def _cell(value: Any, form: Format) -> str:
    if value is _MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    if isinstance(value, str | int | Decimal128):
        return str(value)
    if isinstance(value, ObjectId):
        return f"ObjectId({value})"
    if isinstance(value, DatetimeMS):
        return _date(value, form)
    return as_json(value, relaxed=form.relaxed)


def _date(value: DatetimeMS, form: Format) -> str:
    """`2026-01-31T10:00:00.000Z`, and extended JSON for the years that have no such form."""
    try:
        moment = value.as_datetime()
    except (OverflowError, ValueError):
        return as_json(value, relaxed=form.relaxed)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
