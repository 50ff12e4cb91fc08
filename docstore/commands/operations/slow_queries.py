"""The log line of a slow operation."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.log import component

_LOG = component("COMMAND")
_LOGGED_BYTES = 10_000
"""Longer commands are logged by name only."""


def log_slow(context: Context, reply_bytes: int | None = None) -> None:
    """Log an operation that has ended; `reply_bytes`: the length of its reply, if known."""
    _LOG.info(
        "Slow query",
        ctx=f"conn{context.connection.id}",
        type="command",
        ns=context.reported_namespace or f"{context.db}.$cmd",
        **({"appName": context.connection.application_name} if context.connection.application_name else {}),
        command=_logged(context),
        **context.figures,
        **({} if reply_bytes is None else {"reslen": reply_bytes}),
        remote=context.connection.remote,
        protocol="op_msg",
        durationMillis=round((context.services.clock() - context.started) * 1000),
    )


def _logged(context: Context) -> dict[str, Any]:
    return (
        document_to_python(context.redacted_request)
        if len(context.raw) <= _LOGGED_BYTES
        else {context.command.name: "..."}
    )
