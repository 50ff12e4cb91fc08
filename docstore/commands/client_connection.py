# cython: annotation_typing=False
"""The state of a client connection, as commands see it."""

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
"""The "host:port" of a local client on a Unix domain socket."""

PROCESS_DRIVER = "docstore"
"""The name of the driver in the metadata that a process of the cluster sends to another."""


class RequestCache:
    """The request cache of a connection; `docstore.commands.request_templates` implements it."""

    __slots__ = ()

    def forget(self) -> None:
        """Clear the cache: the same request may now have another meaning."""


class ClientConnection:
    """The state of one client connection. The transport sets it; hello adds the client's metadata.

    `id`: the connection id shown to the client. `remote`, `local`: "host:port" of both sides; `local` is the path for a
    Unix domain socket. `metadata`: the raw `client` document of the first hello;
    `greets_as_process`: it names a process of the cluster. `compressors`: the names agreed on, in
    the client's order. `cursors`: ids of cursors that end with the connection (those of exhaust streams). `opened`: the
    cache of recent requests, for requests of the same shape; None before the first. `upstream`: per process that
    requests are relayed to, the connection that carried the last one. `last_write`: the outcome of the last write
    without a reply. `hang_up`: closes the connection at once. `identity`: the authenticated user; `conversation`: the
    authentication in progress. `session_owner`: the digest of the user who owns its sessions, with access control.
    `subject`: the subject of the client's verified certificate.
    """

    __slots__ = (
        "__weakref__", "application_name", "compressors", "conversation", "cursors", "greeted", "greets_as_process",
        "hang_up", "id", "identity", "last_write", "local", "metadata", "opened", "remote",
        "session_owner", "subject", "upstream",
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
        self.greets_as_process = False
        self.cursors: set[int] = set()
        self.opened: RequestCache | None = None
        self.identity: Identity | None = None
        self.conversation: Conversation | None = None
        self.upstream: dict[str, object] = {}
        self.session_owner: bytes = NO_USER_DIGEST
        self.subject: Subject | None = None

    def describe(self) -> dict[str, Any]:
        """Return the fields for logs."""
        return {"remote": self.remote, "connectionId": self.id}
