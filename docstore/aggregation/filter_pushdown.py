"""Filter pushdown: the conditions of a filter that may move before the preceding stage.

A stage divides the conditions by its fields: those that it preserves, by top-level name, and those that are plain
copies of other paths (`$group` shows fields as parts of its key; `$project` and `$addFields` rename them).

- A condition on preserved fields moves.
- A condition on copied fields is repeated before the stage under the original names, for an index, and also stays. In a
  filter a path through arrays matches more than in an expression, so the repeated condition is necessary for a match
  but not sufficient.
- Only positive conditions with plain values are repeated: conditions that a missing value satisfies are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from docstore.aggregation.field_dependencies import fields_of_filter
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import (
    ARRAY,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT,
    REGEX,
    STRING,
    UNDEFINED,
    Value,
    elements,
    values,
)
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import And, Comparison, Filter, In, Or, RegexMatch
from docstore.query.value.values import text_of

_NOT_PLAIN = (ARRAY, MAX_KEY, MIN_KEY, NULL, REGEX, UNDEFINED)

FieldTest = Callable[[str], bool]
"""A predicate of top-level field names."""

PathSource = Callable[[str], str | None]
"""Returns the input path that an output path is a plain copy of; None if it is none."""


class DividedFilter(NamedTuple):
    """Raw conditions: moved before a stage, kept after it, and repeated before it."""

    moved: list[bytes]
    remaining: list[bytes]
    implied: list[bytes]


def divide_by_fields(
    conditions: Iterable[bytes], is_preserved: FieldTest | None, query_context: QueryContext
) -> DividedFilter:
    """Divide conditions by whether the stage preserves all their fields; None: no field is known to be preserved."""
    if is_preserved is None:
        return DividedFilter([], list(conditions), [])
    divided = DividedFilter([], [], [])
    for condition in conditions:
        fields = fields_of_filter(parse_filter(condition, query_context=query_context))
        moves = fields is not None and all(map(is_preserved, fields))
        (divided.moved if moves else divided.remaining).append(condition)
    return divided


def conditions_in_front(
    conditions: Iterable[bytes], source_of: PathSource | None, query_context: QueryContext
) -> list[bytes]:
    """Return the input conditions implied by conditions on a stage's output, whose paths `source_of` maps to the
    input.
    """
    if source_of is None:
        return []
    implied: list[bytes] = []
    for condition in conditions:
        renamed = _renamed(condition, source_of)
        if renamed is not None and _is_positive(parse_filter(renamed, query_context=query_context), query_context):
            implied.append(renamed)
    return implied


def copies_of(fields: bytes) -> PathSource:
    """Return the source paths of a specification like that of `$project`: `{new: "$old"}`."""
    copied = {name: _path_of((code, data)) for name, code, data in elements(fields)}

    def source_of(path: str) -> str | None:
        name, dot, inner = path.partition(".")
        source = copied.get(name)
        return None if source is None else plain_path(source + dot + inner)

    return source_of


def _path_of(value: Value) -> str | None:
    if value[0] != STRING:
        return None
    text = text_of(value)
    return text[1:] if text.startswith("$") and not text.startswith("$$") else None


def plain_path(path: str | None) -> str | None:
    """Return the path if it has no number, which is an array position in a filter, but a field name in an
    expression.
    """
    return None if path is None or any(part.isdigit() for part in path.split(".")) else path


def _renamed(raw: bytes, source_of: PathSource) -> bytes | None:
    """Return the condition under the input's field names; None if a field is no plain copy."""
    fields: list[tuple[str, int, bytes]] = []
    for name, code, data in elements(raw):
        if name in ("$and", "$or"):
            members = [_renamed(member, source_of) for _, member in values(data)]
            renamed = [member for member in members if member is not None]
            if len(renamed) < len(members):
                return None
            fields.append((name, *array_value([(OBJECT, member) for member in renamed])))
            continue
        source = None if name.startswith("$") else source_of(name)
        if source is None:
            return None
        fields.append((source, code, data))
    return document_from(fields)


def _is_positive(tree: Filter, query_context: QueryContext) -> bool:
    """True if only the presence of plain values satisfies the filter."""
    match tree:
        case And(children) | Or(children):
            return bool(children) and all(_is_positive(child, query_context) for child in children)
        case Comparison(value=value):
            return value[0] not in _NOT_PLAIN
        case In(values=listed, patterns=()):
            return all(value[0] not in _NOT_PLAIN for value in listed)
        case RegexMatch():
            # Of strings that a collation treats as equal, only the one shown needs to match.
            return query_context.collation is None
        case _:
            return False
