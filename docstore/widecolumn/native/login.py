"""SASL PLAIN: a name and a password, which must be those of a user of the database `admin`.

CQL's roles are users and roles of that database (`docstore.widecolumn.commands.roles`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import bson

from docstore.bson import document_to_python
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.net.access.password_login import PasswordLogins
from docstore.net.connection import outcome_of
from docstore.security.names import UserName
from docstore.widecolumn.native.client import NativeClient
from docstore.wire.message import Message

AUTHENTICATOR = "org.apache.cassandra.auth.PasswordAuthenticator"
"""The name by which clients choose how to log in."""
_DATABASE = "admin"


class LoginRefused(Exception):
    """The message is for the client."""


@dataclass(frozen=True, slots=True)
class PlainCredentials:
    name: UserName
    password: str = field(repr=False)


def read_plain(token: bytes | None) -> PlainCredentials:
    """Read `[authorization id] 00 user 00 password`. LoginRefused."""
    parts = (token or b"").split(b"\0")
    if len(parts) != 3 or not parts[1]:
        raise LoginRefused("Authentication ID must not be null")
    if not parts[2]:
        raise LoginRefused("Password must not be null")
    try:
        user, password = parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        raise LoginRefused("the name and the password must be UTF-8") from None
    if parts[0] not in (b"", parts[1]):
        raise wrong_credentials(user)
    return PlainCredentials(UserName(user, _DATABASE), password)


def wrong_credentials(user: str) -> LoginRefused:
    return LoginRefused(f"Provided username {user} and/or password are incorrect")


async def log_in_plain(
    dispatcher: Dispatcher, logins: PasswordLogins, client: NativeClient, credentials: PlainCredentials
) -> None:
    """Log a client in. Errors: LoginRefused."""
    services = dispatcher.services

    async def say(db: str, command: dict[str, Any]) -> dict[str, Any]:
        outcome = dispatcher.handle(Message(0, 0, bson.encode({**command, "$db": db}), {}), client)
        if isinstance(outcome, Pending):
            outcome = await outcome_of(outcome, asyncio.get_running_loop(), services.clock)
        assert isinstance(outcome, bytes), "a request without flags has one reply"
        return document_to_python(outcome)

    if not await logins.log_in(client, say, credentials.name, credentials.password):
        raise wrong_credentials(credentials.name.user)
