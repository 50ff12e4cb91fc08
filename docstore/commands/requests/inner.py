"""Execution of a command by another one: checked, authorized and audited as if the client had sent it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from docstore.bson import document_to_python
from docstore.commands.access.authorization import admit
from docstore.commands.context import Context
from docstore.commands.declaration import RESULTS, Role, encoded
from docstore.commands.envelope import open_request
from docstore.errors import CommandError
from docstore.wire.message import Message


async def carry_out(context: Context, db: str, command: Mapping[str, Any]) -> dict[str, Any]:
    """Run a command for the client of this one; return its reply. Errors: those of the command."""
    services = context.services
    request = Message(0, 0, bson.encode({**command, "$db": db}), {})
    inner, arguments = open_request(request, context.connection, services, context.started)
    try:
        admission = admit(services.access, inner, arguments) if services.access.enabled else None
        if admission is not None:
            await admission
        if inner.command.role is Role.PRIMARY:
            services.host.check_write()
        result = inner.command.run(inner, arguments)
        reply = result if isinstance(result, RESULTS) else await result
    except CommandError as error:
        if services.audit is not None:
            services.audit.observe(inner, bson.encode(error.reply()))
        raise
    body = encoded(reply)
    if services.audit is not None:
        services.audit.observe(inner, body)
    return document_to_python(body)
