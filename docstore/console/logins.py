"""Logins to the console.

A login is a connection that has authenticated like any client's, by SCRAM or by certificate. Restrictions of
addresses apply, each attempt is logged, and the user's privileges are always the current ones.

Browsers send a cookie to every port of the host that has set it, so another server on the host can learn it. A login
therefore also has a key, which the page keeps for its own origin: both are needed.

Invariants:

- token and key are known to their browser alone (here only hashes are kept);
- a login ends after `IDLE_SECONDS` without a request, after `LONGEST_SECONDS`, and when its user is dropped;
- a login by certificate serves only requests with a certificate of the same name;
- a login of a user who may come from some addresses only serves requests from these;
- there are at most `MOST_LOGINS` logins, and `MOST_OF_USER` of a user, whose oldest ones go first;
- at most `MOST_WAITING` attempts of one address as one user are under way.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import Any

from docstore.bson import document_to_python
from docstore.commands.access.control import X509
from docstore.commands.access.logins import client_address, may_be
from docstore.commands.client_connection import ClientConnection
from docstore.commands.dispatch import Dispatcher
from docstore.console.commands import APPLICATION, Call
from docstore.net.access.password_login import PasswordLogins
from docstore.security.certificates import Subject
from docstore.security.names import EXTERNAL, UserName

IDLE_SECONDS = 30 * 60.0
LONGEST_SECONDS = 12 * 3600.0
MOST_LOGINS = 200
MOST_OF_USER = 20
MOST_WAITING = 16
_CALL_SECONDS = 10.0
_TOKEN_BYTES = 32


class LoginRefused(Exception):
    """The user is unknown, or the proof is wrong; the message does not say which."""


class TooBusy(Exception):
    """Too many login attempts from the client's address as this user are under way."""


@dataclass(frozen=True, slots=True)
class Password:
    user: str
    db: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """The login by certificate. `subject`: of the connection's certificate, None without one; `user`: the claimed
    name.
    """

    subject: Subject | None
    user: str | None = None


Proof = Password | ShownCertificate


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a request's connection, as "host:port"."""

    remote: str
    local: str


@dataclass(slots=True)
class _Login:
    connection: ClientConnection
    key: bytes
    began: float
    used: float


class Logins:
    """`next_id` numbers connections; `remembered` has those who authenticate with every request."""

    def __init__(self, dispatcher: Dispatcher, next_id: Callable[[], int], *, refusal_seconds: float = 0.5) -> None:
        """`refusal_seconds`: how long the answer to a refused login is delayed."""
        self._dispatcher = dispatcher
        self._services = dispatcher.services
        self._clock = dispatcher.services.clock
        self._next_id = next_id
        self._refusal_seconds = refusal_seconds
        self._logins: dict[bytes, _Login] = {}
        self._remembered: dict[bytes, bytes] = {}
        self._secret = secrets.token_bytes(32)
        self._by_password = PasswordLogins(self._services.access)
        self._under_way: Counter[tuple[str, str | None]] = Counter()

    def anonymous(self, ends: Ends) -> ClientConnection:
        """Return an unauthenticated connection, for one request."""
        connection = ClientConnection(self._next_id(), ends.remote, local=ends.local)
        connection.application_name = APPLICATION
        return connection

    async def log_in(self, proof: Proof, ends: Ends) -> tuple[str, str, UserName]:
        """Return the token and the key of a new login, and its user. Errors: LoginRefused, TooBusy."""
        connection = self.anonymous(ends)
        attempt = (client_address(connection), proof.user)
        if self._under_way[attempt] >= MOST_WAITING:
            raise TooBusy
        self._under_way[attempt] += 1
        try:
            is_accepted = await self._authenticate(connection, proof)
        finally:
            self._under_way[attempt] -= 1
            if not self._under_way[attempt]:
                del self._under_way[attempt]
        identity = connection.identity
        if not is_accepted or identity is None:
            await asyncio.sleep(self._refusal_seconds)
            raise LoginRefused
        self._make_room(identity.user.name)
        token, key = secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_urlsafe(_TOKEN_BYTES)
        now = self._clock()
        self._logins[_hash(token)] = _Login(connection, _hash(key), now, now)
        self._services.peers.add(connection)
        return token, key, identity.user.name

    async def with_request(self, proof: Proof, ends: Ends) -> ClientConnection:
        """Return the connection of a client that authenticates with every request. One login serves the next ones
        too, until users may have changed. Errors: LoginRefused, TooBusy.
        """
        generation = self._services.access.directory.generation
        fingerprint = repr((self._secret, generation, type(proof), astuple(proof), ends.remote.rpartition(":")[0]))
        key = hashlib.sha256(fingerprint.encode("utf-8", "surrogatepass")).digest()
        login = self._find(self._remembered.get(key, b""))
        if login is None:
            token, _, _ = await self.log_in(proof, ends)
            self._remembered = {digest: hashed for digest, hashed in self._remembered.items() if hashed in self._logins}
            self._remembered[key] = _hash(token)
            login = self._logins[_hash(token)]
        return login.connection

    def find(self, token: str, key: str, subject: Subject | None, ends: Ends) -> ClientConnection | None:
        """Return the connection of a login if it has not ended, the key matches and its user may come from there.
        `subject`: of the request's certificate; `ends`: of its connection.
        """
        login = self._find(_hash(token))
        if login is None or not secrets.compare_digest(login.key, _hash(key)):
            return None
        identity = login.connection.identity
        if identity is None or not may_be(self.anonymous(ends), identity.user):
            return None
        proven = login.connection.subject
        return login.connection if proven is None or proven == subject else None

    def _find(self, hashed: bytes) -> _Login | None:
        login = self._logins.get(hashed)
        if login is None:
            return None
        if self._has_ended(login):
            self._end(hashed)
            return None
        login.used = self._clock()
        return login

    def log_out(self, token: str, key: str, subject: Subject | None, ends: Ends) -> None:
        if self.find(token, key, subject, ends) is not None:
            self._end(_hash(token))

    def end_all(self) -> None:
        for hashed in list(self._logins):
            self._end(hashed)

    def _end(self, hashed: bytes) -> None:
        login = self._logins.pop(hashed, None)
        if login is not None:
            self._services.peers.discard(login.connection)

    def _has_ended(self, login: _Login) -> bool:
        now = self._clock()
        is_logged_out = login.connection.identity is None
        return is_logged_out or now - login.used >= IDLE_SECONDS or now - login.began >= LONGEST_SECONDS

    def _make_room(self, name: UserName) -> None:
        """End logins that are over, and where there is no room, those longest unused: the user's own ones first."""
        for hashed in [hashed for hashed, login in self._logins.items() if self._has_ended(login)]:
            self._end(hashed)
        own = [hashed for hashed, login in self._logins.items() if _is_of(login, name)]
        while len(own) >= MOST_OF_USER or (own and len(self._logins) >= MOST_LOGINS):
            oldest = min(own, key=lambda hashed: self._logins[hashed].used)
            own.remove(oldest)
            self._end(oldest)
        while len(self._logins) >= MOST_LOGINS:
            self._end(min(self._logins, key=lambda hashed: self._logins[hashed].used))

    async def _authenticate(self, connection: ClientConnection, proof: Proof) -> bool:
        if isinstance(proof, Password):
            return await self._converse(connection, proof)
        connection.subject = proof.subject
        user_field = {} if proof.user is None else {"user": proof.user}
        await self._say(connection, EXTERNAL, {"authenticate": 1, "mechanism": X509, **user_field})
        return connection.identity is not None

    async def _converse(self, connection: ClientConnection, proof: Password) -> bool:
        name = UserName(proof.user, proof.db)
        return await self._by_password.log_in(connection, partial(self._say, connection), name, proof.password)

    async def _say(self, connection: ClientConnection, db: str, command: dict[str, Any]) -> dict[str, Any]:
        return document_to_python(await Call(self._dispatcher, connection, _CALL_SECONDS).run(db, command))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _is_of(login: _Login, name: UserName) -> bool:
    identity = login.connection.identity
    return identity is not None and identity.user.name == name
