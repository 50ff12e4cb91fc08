"""`arrayFilters`: the conditions of the identifiers in an update's paths (`$[id]`).

Every filter has conditions on one top-level name, its identifier. Each identifier has one filter, and each filter is
used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from docstore.bson.build import document_from
from docstore.bson.walk import Value
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import named_paths
from docstore.query.update.tree import is_selector

NOT_IN_UPDATES = frozenset(("$expr", "$geoNear", "$jsonSchema", "$near", "$nearSphere", "$text", "$where"))
"""Operators on whole documents, to which the conditions within an update have no access."""

_IDENTIFIER = re.compile(r"[a-z][a-zA-Z0-9]*")


def within_update(query_context: QueryContext) -> QueryContext:
    """Return the context of conditions on array elements."""
    return replace(query_context, excluded=query_context.excluded | NOT_IN_UPDATES)


def parse_array_filters(filters: Sequence[bytes], query_context: QueryContext) -> dict[str, Callable[[Value], bool]]:
    """Return the test of elements for every identifier, by the part of a path that names it (`$[id]`).

    Errors: FailedToParse for a filter of none or of several names or for two of one name, BadValue for a bad name.
    """
    if not filters:
        return {}
    inner = within_update(query_context)
    tests: dict[str, Callable[[Value], bool]] = {}
    for raw in filters:
        tree = parse_filter(raw, query_context=inner)
        identifier = _identifier(named_paths(tree))
        selector = f"$[{identifier}]"
        if selector in tests:
            raise CommandError(
                Code.FailedToParse, f"Found multiple array filters with the same top-level field name {identifier}"
            )
        tests[selector] = _test(identifier, compile_filter(tree).matches)
    return tests


def _test(identifier: str, matches: Callable[[bytes], bool]) -> Callable[[Value], bool]:
    return lambda element: matches(document_from([(identifier, *element)]))


def _identifier(paths: Iterable[str]) -> str:
    identifier: str | None = None
    for path in paths:
        name = path.partition(".")[0]
        if identifier is not None and name != identifier:
            raise CommandError(
                Code.FailedToParse,
                f"Error parsing array filter: Expected a single top-level field name, found '{identifier}'"
                f" and '{name}'",
            )
        identifier = name
    if identifier is None:
        raise CommandError(
            Code.FailedToParse, "Cannot use an expression without a top-level field name in arrayFilters"
        )
    if not _IDENTIFIER.fullmatch(identifier):
        raise CommandError(
            Code.BadValue,
            "Error parsing array filter: The top-level field name must be an alphanumeric string beginning with a"
            f" lowercase letter, found '{identifier}'",
        )
    return identifier


def check_known(path: str, selectors: Collection[str]) -> None:
    """Error: BadValue for an identifier without a filter."""
    for part in path.split("."):
        if is_selector(part) and part != "$[]" and part not in selectors:
            raise CommandError(Code.BadValue, f"No array filter found for identifier '{part[2:-1]}' in path '{path}'")


def check_used(paths: Iterable[str], selectors: Collection[str]) -> None:
    """Error: FailedToParse for a filter that no path uses."""
    if not selectors:
        return
    used = {part for path in paths for part in path.split(".")}
    for selector in sorted(set(selectors) - used):
        raise CommandError(
            Code.FailedToParse, f"The array filter for identifier '{selector[2:-1]}' was not used in the update"
        )
