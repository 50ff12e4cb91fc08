"""Logins by name and password, carried out in process as a client would do it: by SCRAM, with commands.

So restrictions of addresses, delays after failures, the audit log and the log are those of every login.

Making keys of a password takes milliseconds of a processor. `KEYS_AT_ONCE` are made at a time, for each address
and name in turn. Nobody holds a turn while they are delayed.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

from docstore.commands.access.control import AccessControl
from docstore.commands.access.logins import client_address
from docstore.commands.client_connection import ClientConnection
from docstore.net.access.fair_turns import FairTurns
from docstore.security.names import UserName
from docstore.security.scram import MECHANISMS
from docstore.security.scram_client import ScramError, conversation

_NONCE_BYTES = 24
KEYS_AT_ONCE = 2
MAX_CREDENTIALS_LETTERS = 8192
"""A name and a password that are longer together are wrong: keys are not made of a stranger's long texts."""

Say = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a command to a database on the connection that is to be logged in, and returns the reply, unchecked."""


class PasswordLogins:
    """The logins by password at one of a process's doors."""

    def __init__(self, access: AccessControl) -> None:
        self._access = access
        self._turns = FairTurns(KEYS_AT_ONCE)

    async def log_in(self, connection: ClientConnection, say: Say, name: UserName, password: str) -> bool:
        """Log a connection in; return whether the password is the user's. Errors: those of `say`."""
        if len(name.user) + len(name.db) + len(password) > MAX_CREDENTIALS_LETTERS:
            return False
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
                async with self._turns.turn((client_address(connection), name)):
                    payload = await self._access.aside(partial(_next, messages, answer))
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
