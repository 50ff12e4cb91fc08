"""Names of the query language that MongoDB knows and this server does not serve yet.

Kept apart from the tables of what is served, so that "not supported" and "no such operator" are different replies and
no name can be in both.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError

FILTER_OPERATORS = frozenset(
    (
        "$expr",
        "$geoIntersects",
        "$geoNear",
        "$geoWithin",
        "$near",
        "$nearSphere",
        "$text",
        "$within",
    )
)


def not_supported(kind: str, name: str) -> CommandError:
    """The refusal of a known name: `kind` says what it is (query operator, aggregation stage, ...)."""
    return CommandError(Code.NotImplemented, f"the {kind} {name} is known but not supported by this server")
