"""The parameter `cursor` of commands that reply with a cursor."""

from __future__ import annotations

from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.declaration import Parameter, Type

_FIELDS = declared(Parameter("batchSize", Type.INT, minimum=0))


def batch_size_of(arguments: Arguments) -> int | None:
    """Return the requested batch size; None for the default."""
    raw = arguments["cursor"]
    if raw is None:
        return None
    size: int | None = parse_fields("cursor", raw, _FIELDS)["batchSize"]
    return size
