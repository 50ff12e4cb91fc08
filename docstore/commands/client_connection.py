# cython: annotation_typing=False
"""Who is at the other end of a connection, as commands see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from docstore.commands.legacy.last_write import NOTHING_WRITTEN
from docstore.commands.sessions.fields import NO_USER_DIGEST

if TYPE_CHECKING:
    from docstore.commands.access.conversation import Conversation
    from docstore.commands.access.identity import Identity
    from docstore.security.certificates import Subject

UNIX_SOCKET = "anonymous unix socket:27017"
"""What a client on the same machine that came by a socket in the file system has for "host:port"."""


class RequestCache:
    """The cache of a connection's requests; `docstore.commands.request_templates` fills it."""

    __slots__ = ()

    def forget(self) -> None:
        """Drop what was kept: the same request may mean something else from now on."""


class ClientConnection:
    """One client connection's standing facts. The transport fills it; hello adds what the client says of itself.

    `id`: the connection id shown to the client. `remote`, `local`: "host:port" of both sides; `local` the path of a
    socket in the file system. `metadata`: the
    raw `client` document of the first hello. `compressors`: names agreed on, in the client's order.
    `cursors`: ids of cursors that die with the connection (those of exhaust streams).
    `opened`: the last requests as they were read, for a client that sends others of the same shape; None before the
    first.
    `upstream`: what carried its last request to each other process that requests are relayed to.
    `last_write`: what the last write without a reply did. `hang_up`: closes the connection at once.
    `identity`: who its client has proven to be; `conversation`: how it is proving that. `session_owner`: the digest of
    the user to whom its sessions belong, where users are told apart. `subject`: whose certificate the client has shown
    and proven to be its own.
    """

    __slots__ = (
        "application_name", "compressors", "conversation", "cursors", "greeted", "hang_up", "id", "identity",
        "last_write", "local", "metadata", "opened", "remote", "session_owner", "subject", "upstream",
    )  # fmt: skip

    def __init__(
        self, connection_id: int, remote: str, hang_up: Callable[[], None] = lambda: None, *, local: str = ""
    ) -> None:
        self.id = connection_id
        self.remote = remote
        self.local = local
        self.hang_up = hang_up
        self.last_write = NOTHING_WRITTEN
        self.metadata: bytes | None = None
        self.application_name = ""
        self.compressors: tuple[str, ...] = ()
        self.greeted = False
        self.cursors: set[int] = set()
        self.opened: RequestCache | None = None
        self.identity: Identity | None = None
        self.conversation: Conversation | None = None
        self.upstream: dict[str, object] = {}
        self.session_owner = NO_USER_DIGEST
        self.subject: Subject | None = None

    def describe(self) -> dict[str, Any]:
        """For logs."""
        return {"remote": self.remote, "connectionId": self.id}
