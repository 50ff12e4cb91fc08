"""Who a connection is authenticated as."""

from __future__ import annotations

from docstore.commands.client_connection import ClientConnection
from docstore.errors import CommandError
from docstore.security.users import User, UserDirectory


class Identity:
    """A user as its connection knows it: as it was in a generation of the directory."""

    __slots__ = ("generation", "user")

    def __init__(self, user: User, generation: int) -> None:
        self.user = user
        self.generation = generation


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


def log_out(connection: ClientConnection, db: str) -> None:
    """Forget the user of that database."""
    present = connection.identity
    if present is not None and present.user.name.db == db:
        connection.identity = None


async def current(connection: ClientConnection, directory: UserDirectory) -> User | None:
    """The connection's user as it is now; None where there is none, or none any more: then it is logged out.

    A user that was dropped and made anew is another one.
    """
    present = connection.identity
    if present is None:
        return None
    generation = directory.generation
    if present.generation != generation:
        found = await directory.find(present.user.name)
        if connection.identity is not present:
            return await current(connection, directory)
        if found is None or found.user_id != present.user.user_id:
            connection.identity = None
            return None
        connection.identity = present = Identity(found, generation)
    return present.user
