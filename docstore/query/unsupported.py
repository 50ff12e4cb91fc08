"""The error for features of MongoDB that this server lacks, which differs from that for a misspelt name."""

from __future__ import annotations

from docstore.errors import Code, CommandError


def not_supported(kind: str, name: str) -> CommandError:
    """Return the error for a known name; `kind` is its category (query operator, aggregation stage, ...)."""
    return CommandError(Code.NotImplemented, f"the {kind} {name} is known but not supported by this server")
