"""A login by name and password, carried out in process as a client would do it: by SCRAM, with commands.

So restrictions of addresses, delays after failures, the audit log and the log are those of every login.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

from docstore.commands.access.control import AccessControl
from docstore.commands.client_connection import ClientConnection
from docstore.security.names import UserName
from docstore.security.scram import MECHANISMS
from docstore.security.scram_client import ScramError, conversation

_NONCE_BYTES = 24

Say = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a command to a database on the connection that is to be logged in, and returns the reply, unchecked."""


async def log_in_by_password(
    connection: ClientConnection, access: AccessControl, say: Say, name: UserName, password: str
) -> bool:
    """Log a connection in; return whether the password is the user's. Errors: those of `say`."""
    hello = await say(name.db, {"hello": 1, "saslSupportedMechs": f"{name.db}.{name.user}"})
    has = hello.get("saslSupportedMechs", ())
    mechanism = next((offered for offered in reversed(MECHANISMS) if offered in has), None)
    if mechanism is None:
        return False
    messages = conversation(mechanism, name.user, password, secrets.token_bytes(_NONCE_BYTES))
    try:
        first = next(messages)
        command: dict[str, Any] = {"saslStart": 1, "mechanism": mechanism, "payload": first}
        command["options"] = {"skipEmptyExchange": True}
        reply = await say(name.db, command)
        while reply.get("ok") == 1:
            answer = bytes(reply["payload"])
            # Making keys of a password takes milliseconds.
            payload = await access.aside(partial(_next, messages, answer))
            if payload is None:
                return connection.identity is not None
            command = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": payload}
            reply = await say(name.db, command)
    except ScramError:
        return False
    return False


def _next(messages: Generator[bytes, bytes, None], answer: bytes) -> bytes | None:
    """Return the next message to send; None at the end. Errors: ScramError."""
    try:
        return messages.send(answer)
    except StopIteration:
        return None
