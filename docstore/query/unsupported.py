"""The refusal of what MongoDB knows and this server does not serve: another reply than to a misspelt name."""

from __future__ import annotations

from docstore.errors import Code, CommandError


def not_supported(kind: str, name: str) -> CommandError:
    """The refusal of a known name: `kind` says what it is (query operator, aggregation stage, ...)."""
    return CommandError(Code.NotImplemented, f"the {kind} {name} is known but not supported by this server")
