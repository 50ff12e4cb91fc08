"""Logins: as whom a connection is authenticated, and whose its sessions are."""

from __future__ import annotations

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
    """Return the IP address of a connection's client as text; the name of a socket in the file system as it is."""
    return connection.remote.rpartition(":")[0].strip("[]")


def may_be(connection: ClientConnection, user: User) -> bool:
    """Return whether a user's restrictions let the client in from where it is, to where it came."""
    return admitted(user.restrictions, client_address(connection), connection.local.rpartition(":")[0].strip("[]"))


def log_in(connection: ClientConnection, user: User, generation: int) -> None:
    """The connection's client has proven to be that user. Errors: 5626701, 5626702 where it is another already."""
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
    """From now on the connection's sessions are those of its user, of nobody where it has none; the server's own
    processes say of each whose it is.
    """
    identity = connection.identity
    name = None if identity is None else identity.user.name
    owner = NO_USER_DIGEST if name is None or name == SYSTEM else user_digest(name.user, name.db)
    if owner != connection.session_owner:
        connection.session_owner = owner
        if connection.opened is not None:
            connection.opened.forget()


def check_owner(connection: ClientConnection, lsid: bytes) -> None:
    """Refuse a session of another user. Errors: Unauthorized."""
    owner = connection.session_owner
    if lsid[16:] == owner or owner == NO_USER_DIGEST:
        return
    identity = connection.identity
    if identity is None or not identity.user.privileges.allow(CLUSTER, "impersonate"):
        raise CommandError(Code.Unauthorized, "Unauthorized to set user digest in LogicalSessionId")


def log_out(connection: ClientConnection, db: str) -> None:
    """Forget the user of that database."""
    present = connection.identity
    if present is not None and present.user.name.db == db:
        connection.identity = None
        keep_apart(connection)


async def current(connection: ClientConnection, access: AccessControl) -> User | None:
    """The connection's user as it is now; None where there is none, or none any more: then it is logged out.

    A user that was dropped and made anew is another one; one that may not be at the client's address is none there.
    """
    present = connection.identity
    if present is None:
        return None
    generation = access.directory.generation
    if present.generation != generation:
        found = await access.find(present.user.name)
        if connection.identity is not present:
            return await current(connection, access)
        if found is None or found.user_id != present.user.user_id or not may_be(connection, found):
            connection.identity = None
            keep_apart(connection)
            return None
        connection.identity = present = Identity(found, generation)
    return present.user
