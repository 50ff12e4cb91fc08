"""Keeps the sessions of waiting cursors alive.

A server ends the cursors of a session that is unused for half an hour, even cursors without a timeout. All cursors of
a dump are open from its beginning, and the last one may be read hours later.
"""

from __future__ import annotations

import threading
from types import TracebackType

from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from docstore.tools.connection import Client

EVERY = 300.0
"""Seconds between two refreshes."""


class KeptSessions:
    """Sessions that are refreshed until the block is left."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sessions: list[ClientSession] = []
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="sessions", daemon=True)

    def __enter__(self) -> KeptSessions:
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._keeper.join()
        for session in self._sessions:
            session.end_session()

    def new(self) -> ClientSession:
        """A session for one cursor."""
        session = self._client.start_session(causal_consistency=False)
        self._sessions.append(session)
        return session

    def refresh(self) -> None:
        """Errors: PyMongoError."""
        named = [session.session_id for session in list(self._sessions)]
        if named:
            self._client.admin.command("refreshSessions", named, read_preference=self._client.read_preference)

    def _keep(self) -> None:
        while not self._over.wait(EVERY):
            try:
                self.refresh()
            except PyMongoError:
                # There is another try in time. If the server is gone, those who read from it will say so.
                continue
