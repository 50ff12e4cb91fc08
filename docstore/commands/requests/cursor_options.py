"""The parameter `cursor` of commands that answer with one."""

from __future__ import annotations

from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.declaration import Parameter, Type

_FIELDS = declared(Parameter("batchSize", Type.INT, minimum=0))


def batch_size_of(arguments: Arguments) -> int | None:
    """The batch size that is asked for; None when it is left to the server."""
    raw = arguments["cursor"]
    if raw is None:
        return None
    size: int | None = parse_fields("cursor", raw, _FIELDS)["batchSize"]
    return size
