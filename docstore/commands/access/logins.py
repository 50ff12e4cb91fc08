"""Logins: the authenticated user of a connection, and the owner of its sessions."""

from __future__ import annotations

from typing import Protocol

from docstore.commands.access.control import AccessControl
from docstore.commands.access.identity import Identity
from docstore.commands.client_connection import ClientConnection
from docstore.commands.sessions.fields import NO_USER_DIGEST, user_digest
from docstore.errors import Code, CommandError
from docstore.security.names import SYSTEM
from docstore.security.privileges import CLUSTER
from docstore.security.restrictions import admitted
from docstore.security.users import User


def client_address(connection: ClientConnection) -> str:
    """Return the IP address of a connection's client as text; for a Unix domain socket its name."""
    return connection.remote.rpartition(":")[0].strip("[]")


def may_be(connection: ClientConnection, user: User) -> bool:
    """True if a user's authentication restrictions allow the client's address and the server's."""
    return admitted(user.restrictions, client_address(connection), connection.local.rpartition(":")[0].strip("[]"))


def log_in(connection: ClientConnection, user: User, generation: int) -> None:
    """Log the connection's client in as that user. Errors: 5626701, 5626702 if it is another user already."""
    present = connection.identity
    if present is not None and present.user.name != user.name:
        name = present.user.name
        if name.db == user.name.db:
            raise CommandError(
                5626702, f"Client has attempted to authenticate on multiple databases.Already authenticated as: {name}"
            )
        raise CommandError(
            5626701,
            f"Each client connection may only be authenticated once. Previously authenticated as: {name}",
        )
    connection.identity = Identity(user, generation)


def keep_apart(connection: ClientConnection) -> None:
    """Set the owner of the connection's sessions: its user, or nobody.

    Connections of the cluster's processes name the owner of each session themselves.
    """
    identity = connection.identity
    name = None if identity is None else identity.user.name
    owner = NO_USER_DIGEST if name is None or name == SYSTEM else user_digest(name.user, name.db)
    if owner != connection.session_owner:
        connection.session_owner = owner
        if connection.opened is not None:
            connection.opened.forget()


class Client(Protocol):
    """A connection, or a request of it."""

    identity: Identity | None
    session_owner: bytes


def check_owner(client: Client, lsid: bytes) -> None:
    """Refuse a session of another user. Errors: Unauthorized."""
    owner = client.session_owner
    if lsid[16:] == owner or owner == NO_USER_DIGEST:
        return
    identity = client.identity
    if identity is None or not identity.user.privileges.allow(CLUSTER, "impersonate"):
        raise CommandError(Code.Unauthorized, "Unauthorized to set user digest in LogicalSessionId")


def log_out(connection: ClientConnection, db: str) -> None:
    """Log out the user of that database."""
    present = connection.identity
    if present is not None and present.user.name.db == db:
        connection.identity = None
        keep_apart(connection)


async def current(connection: ClientConnection, access: AccessControl) -> User | None:
    """Return the connection's current user; None if there is none, or none any more: it is logged out then.

    A user dropped and created again is another one. A user not allowed at the client's address counts as none.
    """
    present = connection.identity
    if present is None:
        return None
    generation = access.directory.generation
    if present.generation != generation:
        user = await access.find(present.user.name)
        if connection.identity is not present:
            return await current(connection, access)
        if user is None or user.user_id != present.user.user_id or not may_be(connection, user):
            connection.identity = None
            keep_apart(connection)
            return None
        connection.identity = present = Identity(user, generation)
    return present.user
