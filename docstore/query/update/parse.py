"""Update specifications: a document of operators, a replacement, or a pipeline.

Unknown operators get MongoDB's FailedToParse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from docstore.bson.allowance import spend
from docstore.bson.walk import OBJECT, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.pausing import PAUSED, allowing
from docstore.query.unsupported import not_supported
from docstore.query.update.array_filters import check_known, check_used, parse_array_filters
from docstore.query.update.arrays import parse_add_to_set, parse_pop, parse_pull, parse_pull_all, parse_push
from docstore.query.update.fields import (
    Extreme,
    RenameSource,
    RenameTarget,
    Set,
    Unset,
    parse_current_date,
    parse_rename,
)
from docstore.query.update.modifier import Modifier
from docstore.query.update.numbers import parse_bit, parse_inc, parse_mul
from docstore.query.update.tree import PathNode, Selectors, is_selector
from docstore.query.update.update import Change, OperatorUpdate, PipelineUpdate, Replacement, Update
from docstore.query.value.long_lists import paced
from docstore.query.value.notation import display
from docstore.query.value.values import type_name

OPERATORS: dict[str, Callable[[str, Value, QueryContext], Modifier]] = {
    "$addToSet": lambda path, value, query_context: parse_add_to_set(value, query_context),
    "$bit": lambda path, value, query_context: parse_bit(value),
    "$currentDate": lambda path, value, query_context: parse_current_date(value),
    "$inc": lambda path, value, query_context: parse_inc(path, value),
    "$max": lambda path, value, query_context: Extreme(value, 1, query_context.ordering.compare),
    "$min": lambda path, value, query_context: Extreme(value, -1, query_context.ordering.compare),
    "$mul": lambda path, value, query_context: parse_mul(path, value),
    "$pop": lambda path, value, query_context: parse_pop(path, value),
    "$pull": lambda path, value, query_context: parse_pull(value, query_context),
    "$pullAll": lambda path, value, query_context: parse_pull_all(value, query_context),
    "$push": lambda path, value, query_context: parse_push(value, query_context),
    "$set": lambda path, value, query_context: Set(value),
    "$setOnInsert": lambda path, value, query_context: Set(value),
    "$unset": lambda path, value, query_context: Unset(),
}
"""Operators whose argument belongs to its one path; `$rename` names two."""

_LONG = 512
"""Least bytes of an update whose parsing may take a while."""
_PER_CHANGE = 256
_NOT_AN_OPERATOR = (
    "Unknown modifier: {}. Expected a valid update modifier or pipeline-style update specified as an array"
)


def parse_update(
    specification: bytes | Sequence[bytes], array_filters: Sequence[bytes] = (), *, query_context: QueryContext = PLAIN
) -> Update:
    """Return the update of a document (bytes) or of a pipeline (a list of stages)."""
    parse = partial(_parsed, specification, array_filters, query_context)
    is_short = isinstance(specification, bytes) and len(specification) < _LONG
    return parse() if is_short and not array_filters else allowing(PAUSED, parse)


def _parsed(
    specification: bytes | Sequence[bytes], array_filters: Sequence[bytes], query_context: QueryContext
) -> Update:
    if not isinstance(specification, bytes):
        return _parse_pipeline(specification, array_filters, query_context)
    selectors = parse_array_filters(array_filters, query_context)
    if not has_operators(specification):
        return _parse_replacement(specification)
    update = _Written(selectors)
    for operator, code, data in elements(specification):
        if operator != "$rename" and operator not in OPERATORS:
            raise CommandError(Code.FailedToParse, _NOT_AN_OPERATOR.format(operator))
        if code != OBJECT:
            value = (code, data)
            raise CommandError(
                Code.FailedToParse,
                f"Modifiers operate on fields but we found type {type_name(value)} instead. For example:"
                f" {{$mod: {{<field>: ...}}}} not {{{operator}: {display(value)}}}",
            )
        for path, kind, argument in paced(elements(data)):
            _parse_change(update, operator, path, (kind, argument), query_context)
    check_used([change.path for change in paced(update.changes)], selectors)
    return OperatorUpdate.of(update.changes, update.tree, selectors)


class _Written:
    """Collects the changes of an update as they are parsed: the first invalid one determines the error."""

    def __init__(self, selectors: Selectors) -> None:
        self._selectors = selectors
        self.changes: list[Change] = []
        self.tree = PathNode()

    def add(self, path: str, modifier: Modifier, *, on_insert: bool = False) -> None:
        """Errors: BadValue for an identifier without a filter, ConflictingUpdateOperators."""
        spend(_PER_CHANGE)
        check_known(path, self._selectors)
        self.tree.insert(path, modifier)
        self.changes.append(Change(path, modifier, on_insert))


def _parse_pipeline(
    stages: Sequence[bytes], array_filters: Sequence[bytes], query_context: QueryContext
) -> PipelineUpdate:
    if array_filters:
        raise CommandError(Code.FailedToParse, "arrayFilters may not be specified for pipeline-style updates")
    if query_context.expressions is None:
        raise not_supported("form of update", "pipeline")
    return PipelineUpdate(*query_context.expressions.update(stages, query_context))


def has_operators(specification: bytes) -> bool:
    """True if the document has operators, by its first field, and is not a replacement."""
    return specification[5:6] == b"$"


def _parse_replacement(raw: bytes) -> Replacement:
    fields = paced(elements(raw)) if b"$" in raw else ()
    return Replacement(raw, next((name for name, _, _ in fields if name.startswith("$")), ""))


def _parse_change(update: _Written, operator: str, path: str, value: Value, query_context: QueryContext) -> None:
    _check_path(path)
    if operator != "$rename":
        update.add(path, OPERATORS[operator](path, value, query_context), on_insert=operator == "$setOnInsert")
        return
    update.add(path, RenameSource())
    target = parse_rename(path, value)
    _check_path(target)
    for field_path, role in ((path, "source"), (target, "destination")):
        if any(part == "$" or is_selector(part) for part in field_path.split(".")):
            raise CommandError(Code.BadValue, f"The {role} field for $rename may not be dynamic: {field_path}")
    update.add(target, RenameTarget(path))


def _check_path(path: str) -> None:
    if not path:
        raise CommandError(Code.EmptyFieldName, "An empty update path is not valid.")
    parts = path.split(".")
    if not all(parts):
        raise CommandError(
            Code.EmptyFieldName, f"The update path '{path}' contains an empty field name, which is not allowed."
        )
    if parts[0] == "$":
        raise CommandError(
            Code.BadValue, f"Cannot have positional (i.e. '$') element in the first position in path '{path}'"
        )
    if is_selector(parts[0]):
        raise CommandError(
            Code.BadValue,
            f"Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '{path}'",
        )
    if parts.count("$") > 1:
        raise CommandError(Code.BadValue, f"Too many positional (i.e. '$') elements found in path '{path}'")
