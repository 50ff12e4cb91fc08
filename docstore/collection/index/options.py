"""Options of an index specification: the valid values of each, alone and in combination."""

from __future__ import annotations

from math import isnan, nan

from docstore.bson import BOOL, OBJECT, Value, elements, to_python
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import And, Comparison, Exists, Filter, In, Or, TypeIs
from docstore.query.plan.wildcard import WildcardPaths, paths_of
from docstore.query.projection.parse import parse_projection
from docstore.query.value.collation import Collation, parse_collation
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, TYPE_NAMES

MAX_EXPIRE_SECONDS = 2**31 - 1
_QUERY_FEATURE_NOT_ALLOWED = 224
_FOREIGN = {
    "$expr": _QUERY_FEATURE_NOT_ALLOWED,
    "$jsonSchema": _QUERY_FEATURE_NOT_ALLOWED,
    "$where": Code.BadValue,
    "$text": Code.BadValue,
}
"""Operators that queries accept but partial index filters refuse, at the top or in a disjunction."""


def document_text(raw: bytes) -> str:
    """Return a document as text for a message."""
    return display((OBJECT, raw))


def refused(raw: bytes, reason: str, code: Code | int = Code.CannotCreateIndex) -> CommandError:
    """Return the error that refuses the specification `raw`."""
    return CommandError(code, f"Error in specification {document_text(raw)} :: caused by :: {reason}")


def expire_seconds(raw: bytes, value: Value, fields: int) -> int:
    """Return the expiry of a TTL index in seconds. Errors: CannotCreateIndex."""
    seconds = checked_expire_seconds(value, Code.CannotCreateIndex)
    if fields > 1:
        raise CommandError(Code.CannotCreateIndex, f"a TTL index has a single field. Index spec: {document_text(raw)}")
    return seconds


def checked_expire_seconds(value: Value, code: Code) -> int:
    """Return an `expireAfterSeconds` in whole seconds. Errors: `code` if it is invalid."""
    if value[0] not in NUMBERS:
        raise CommandError(
            code, f"TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{_type(value)}'"
        )
    number = number_of(value)
    if isnan(number):
        return MAX_EXPIRE_SECONDS
    if number > MAX_EXPIRE_SECONDS:
        raise CommandError(code, "TTL index 'expireAfterSeconds' option must be within an acceptable range")
    if number <= -1:
        raise CommandError(code, "TTL index 'expireAfterSeconds' option cannot be less than 0")
    return int(number)


def partial_filter(raw: bytes, value: Value, collation: Collation | None = None) -> Filter:
    """Parse the filter of a partial index, under the index's collation. Errors for operators that it may not
    contain.
    """
    if value[0] != OBJECT:
        raise refused(
            raw, f"The field 'partialFilterExpression' must be an object, but got {_type(value)}", Code.TypeMismatch
        )
    _refuse_foreign(raw, value[1])
    try:
        tree = parse_filter(value[1], query_context=QueryContext(collation=collation))
    except CommandError as error:
        raise refused(raw, error.message, error.code) from error
    _check_partial(raw, tree)
    return tree


def _refuse_foreign(raw: bytes, document: bytes) -> None:
    for name, _, _ in elements(document):
        if name in _FOREIGN:
            raise refused(raw, f"{name} is not allowed in this context", _FOREIGN[name])


def _check_partial(raw: bytes, tree: Filter) -> None:
    if isinstance(tree, And | Or):
        for child in tree.children:
            _check_partial(raw, child)
    elif not isinstance(tree, Comparison | In | Exists | TypeIs):
        raise refused(raw, f"Expression not supported in partial index: {type(tree).__name__}")


def wildcard_paths(raw: bytes, key: str, projection: Value | None) -> WildcardPaths:
    """Return the paths that a wildcard index on `key` ("$**", "a.b.$**") holds."""
    if projection is None:
        if key == "$**":
            return paths_of(["_id"], excluding=True)
        return paths_of([key[: -len(".$**")]], excluding=False)
    if projection[0] != OBJECT:
        raise refused(
            raw, f"The field 'wildcardProjection' must be an object, but got {_type(projection)}", Code.TypeMismatch
        )
    fields = elements(projection[1])
    if not fields:
        raise refused(raw, "The 'wildcardProjection' field can't be an empty object", Code.FailedToParse)
    if key != "$**":
        raise refused(raw, "The field 'wildcardProjection' is for the key {\"$**\": 1} only", Code.FailedToParse)
    return _projected_paths(raw, projection[1])


def _projected_paths(raw: bytes, projection: bytes) -> WildcardPaths:
    chosen = _flags(raw, projection, "")
    try:
        parse_projection(projection)
    except CommandError as error:
        if not _only_mixes_id(chosen):
            raise refused(
                raw, f"Failed to parse: wildcardProjection :: caused by :: {error.message}", error.code
            ) from error
    other_flags = {path: flag for path, flag in chosen.items() if path != "_id"}
    excluding = not any(other_flags.values()) if other_flags else not chosen["_id"]
    named = [path for path, flag in other_flags.items() if flag != excluding]
    if excluding and not chosen.get("_id", False):
        named.append("_id")
    if not excluding and chosen.get("_id", False):
        named.append("_id")
    return paths_of(named, excluding=excluding)


def _only_mixes_id(chosen: dict[str, bool]) -> bool:
    """True if `_id` is the only path with the opposite flag, as an index projection may have it."""
    other_flags = {flag for path, flag in chosen.items() if path != "_id"}
    return "_id" in chosen and len(other_flags) == 1 and chosen["_id"] not in other_flags


def _flags(raw: bytes, projection: bytes, prefix: str) -> dict[str, bool]:
    flags: dict[str, bool] = {}
    for name, code, data in elements(projection):
        value = (code, data)
        if code == OBJECT and not any(inner.startswith("$") for inner, _, _ in elements(data)):
            flags |= _flags(raw, data, f"{prefix}{name}.")
        elif code in NUMBERS:
            flags[prefix + name] = number_of(value) != 0
        elif code == BOOL:
            flags[prefix + name] = data == b"\1"
        else:
            raise refused(
                raw,
                "Failed to parse: wildcardProjection :: caused by :: Bad projection specification",
                51271,
            )
    return flags


def collation_of(raw: bytes, value: Value) -> Collation | None:
    """Return the collation of the index; None for the simple one."""
    if value[0] != OBJECT:
        raise refused(raw, f"The field 'collation' must be an object, but got {_type(value)}", Code.TypeMismatch)
    if not elements(value[1]):
        raise refused(raw, "The field 'collation' cannot be an empty object.", Code.BadValue)
    return parse_collation(value[1], "createIndexes.indexes.collation")


def number_of(value: Value) -> float:
    """Return a numeric value as the nearest double."""
    text = display(value)
    return nan if text.startswith("nan") else float(str(to_python(value)))


def _type(value: Value) -> str:
    return TYPE_NAMES[value[0]]
