"""`$unwind`: one document per element of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.filter_pushdown import FieldTest
from docstore.aggregation.stage import Declaration, Environment, Stage
from docstore.aggregation.streams import Expanded, Stream
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, BOOL, OBJECT, STRING, Value, elements, get_path, values
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import NULL_VALUE, int64_value, is_true, text_of, type_name


@dataclass(frozen=True, slots=True)
class Unwind(Stage):
    """The stage. `index_path` receives the element's position. `keep_empty`: documents without elements are kept
    unchanged.
    """

    raw: bytes
    path: str
    index_path: str | None = None
    keep_empty: bool = False

    runs_on_shards = True

    @property
    def unwound_path(self) -> str | None:
        return self.path if self.index_path is None and not self.keep_empty else None

    @property
    def preserved_fields(self) -> FieldTest:
        changed = {top(path) for path in (self.path, self.index_path) if path is not None}
        return lambda name: name not in changed

    def open(self, source: Stream, environment: Environment) -> Stream:
        return Expanded(source, self.unwound, environment.clock)

    def unwound(self, document: bytes) -> Iterator[bytes]:
        """Yield the documents that one unwinds to."""
        parts = self.path.split(".")
        field_value = get_path(document, self.path)
        if field_value is None or field_value[0] != ARRAY:
            absent = field_value is None or field_value[0] in _NULLISH
            if not absent or self.keep_empty:
                yield self.with_index(document, None)
            return
        members = values(field_value[1])
        if not members and self.keep_empty:
            yield self.with_index(replaced(document, parts, None), None)
        for position, member in enumerate(members):
            yield self.with_index(replaced(document, parts, member), position)

    def with_index(self, document: bytes, position: int | None) -> bytes:
        """Return the document with the position, if requested; None: there was no array."""
        if self.index_path is None:
            return document
        index = NULL_VALUE if position is None else int64_value(position)
        return replaced(document, self.index_path.split("."), index)


_NULLISH = (0x0A, 0x06)


def replaced(document: bytes, parts: list[str], value: Value | None) -> bytes:
    """Return the document with the value at a path of embedded documents; None removes it, a new field is appended."""
    name, inner_parts = parts[0], parts[1:]
    fields: list[tuple[str, int, bytes]] = []
    is_present = False
    for field, code, data in elements(document):
        if field != name or is_present:
            fields.append((field, code, data))
            continue
        is_present = True
        if inner_parts:
            inner = data if code == OBJECT else None
            fields.append((field, OBJECT, _nested(inner, inner_parts, value)))
        elif value is not None:
            fields.append((field, *value))
    if not is_present and value is not None:
        fields.append((name, OBJECT, _nested(None, inner_parts, value)) if inner_parts else (name, *value))
    return document_from(fields)


def _nested(document: bytes | None, path: list[str], value: Value | None) -> bytes:
    return replaced(b"\x05\0\0\0\0" if document is None else document, path, value)


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    path, index_path, keep_empty = "", None, False
    if value[0] == STRING:
        path = text_of(value)
    elif value[0] == OBJECT:
        for name, code, data in elements(value[1]):
            option = (code, data)
            if name == "path":
                if code != STRING:
                    raise CommandError(
                        28808, f"expected a string as the path for $unwind stage, got {type_name(option)}"
                    )
                path = text_of(option)
            elif name == "includeArrayIndex":
                index_path = _parse_index(option)
            elif name == "preserveNullAndEmptyArrays":
                if code != BOOL:
                    raise CommandError(
                        28809,
                        "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got"
                        f" {type_name(option)}",
                    )
                keep_empty = is_true(option)
            else:
                raise CommandError(28811, f"unrecognized option to $unwind stage: {name}")
    else:
        raise CommandError(
            15981,
            f"expected either a string or an object as specification for $unwind stage, got {type_name(value)}",
        )
    if not path:
        raise CommandError(28812, "no path specified to $unwind stage")
    if not path.startswith("$"):
        raise CommandError(28818, f"path option to $unwind stage should be prefixed with a '$': {path}")
    check_field_path(path[1:])
    return [Unwind(document_from([("$unwind", *value)]), path[1:], index_path, keep_empty)]


def _parse_index(option: Value) -> str:
    text = text_of(option) if option[0] == STRING else ""
    if not text:
        raise CommandError(
            28810,
            f"expected a non-empty string for the includeArrayIndex  option to $unwind stage, got {type_name(option)}",
        )
    if text.startswith("$"):
        raise CommandError(
            28822, f"includeArrayIndex option to $unwind stage should not be prefixed with a '$': {text}"
        )
    check_field_path(text)
    return text


DECLARATIONS = (Declaration("$unwind", _parse),)
