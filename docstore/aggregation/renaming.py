"""What a filter behind a stage says about the documents in front of it, where the stage gives fields other names.

`$group` shows fields as parts of its key, `$project` and `$addFields` under new names. A document that leads to a
result which satisfies the filter satisfies what is found here; not always the other way round, since a path through
arrays means more in a filter than in an expression. So the filter stays where it is, and what is found stands in front
of the stage, where an index may serve it. That holds for positive conditions with plain values: whatever is true of
what is missing, or of the absence of a value, is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.aggregation.stage import Stage
from docstore.aggregation.stages.group import Group
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.project import Project
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
    get_field,
    values,
)
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import And, Comparison, Filter, In, Or, RegexMatch
from docstore.query.value.values import text_of

_NOT_PLAIN = (ARRAY, MAX_KEY, MIN_KEY, NULL, REGEX, UNDEFINED)

Sources = Callable[[str], str | None]
"""The path in the input from which a path in the output is filled; None where that is not a plain copy."""


def in_front_of(stage: Stage, conditions: list[bytes], query_context: QueryContext) -> list[bytes]:
    """What these conditions on the stage's output say about its input, in other words."""
    sources = _sources(stage)
    if sources is None:
        return []
    found: list[bytes] = []
    for condition in conditions:
        renamed = _renamed(condition, sources)
        if renamed is not None and _is_positive(parse_filter(renamed, query_context=query_context), query_context):
            found.append(renamed)
    return found


def _sources(stage: Stage) -> Sources | None:
    match stage:
        case Group() if not stage.doing_merge:
            paths = {"_id": stage.key.path}
            for name, part in stage.key.fields or ():
                paths[f"_id.{name}"] = part.path
            return lambda path: _plain_path(paths.get(path))
        case Project():
            [(_, kind, fields)] = elements(stage.raw)
            if kind != OBJECT:
                return None
            copied = {name: _path_of((code, data)) for name, code, data in elements(fields)}
            return lambda path: _below(copied, path)
        case _:
            return None


def _below(copied: dict[str, str | None], path: str) -> str | None:
    name, dot, rest = path.partition(".")
    source = copied.get(name)
    return None if source is None else _plain_path(source + dot + rest)


def _path_of(value: Value) -> str | None:
    if value[0] != STRING:
        return None
    text = text_of(value)
    return text[1:] if text.startswith("$") and not text.startswith("$$") else None


def _plain_path(path: str | None) -> str | None:
    """A number in a path means a place of an array to a filter, and a field to an expression."""
    return None if path is None or any(part.isdigit() for part in path.split(".")) else path


def _renamed(raw: bytes, sources: Sources) -> bytes | None:
    fields: list[tuple[str, int, bytes]] = []
    for name, code, data in elements(raw):
        if name in ("$and", "$or"):
            members = [_renamed(member, sources) for _, member in values(data)]
            given = [member for member in members if member is not None]
            if len(given) < len(members):
                return None
            fields.append((name, *array_value([(OBJECT, member) for member in given])))
            continue
        source = None if name.startswith("$") else sources(name)
        if source is None:
            return None
        fields.append((source, code, data))
    return document_from(fields)


def _is_positive(tree: Filter, query_context: QueryContext) -> bool:
    """Whether only the presence of plain values satisfies the filter."""
    match tree:
        case And(children) | Or(children):
            return bool(children) and all(_is_positive(child, query_context) for child in children)
        case Comparison(value=value):
            return value[0] not in _NOT_PLAIN
        case In(values=listed, patterns=()):
            return all(value[0] not in _NOT_PLAIN for value in listed)
        case RegexMatch():
            # Of strings that a collation takes for equal only the one that is shown need match.
            return query_context.collation is None
        case _:
            return False


def filter_of(stage: Match) -> bytes:
    """The specification of the filter."""
    found = get_field(stage.raw, "$match")
    assert found is not None, "a stage carries its specification"
    return found[1]
