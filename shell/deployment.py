"""The servers behind one address, and the choice among them for each command.

A single host without a set name: that server, in any role. Several hosts or a set name: a router that answers, the
set's primary, or the member for a read preference; others take over when one is gone. A command with an unknown
outcome is repeated only if it is idempotent. Servers have numbers, from 1, so that the further commands of a cursor
or a transaction go back to its server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from docstore.bson import document_to_python
from docstore.tls import Unusable
from shell.address import Address, Credentials
from shell.greeting import Refused, authenticate, greet
from shell.members import Member, choose
from shell.wire_client import ConnectionLost, WireClient

NOT_PRIMARY_CODES = frozenset((10107, 13435, 13436, 11600, 11602, 91, 189))
PRIMARY_WAIT = 12.0
RETRY_PAUSE = 0.2
SURVEY_SECONDS = 10.0
"""The time for which a choice of a member for reads is kept before all are asked again."""

# Commands that change nothing, so that they may be sent twice.
_READS = frozenset(
    (
        "aggregate", "buildInfo", "buildinfo", "collStats", "collstats", "count", "dbStats", "dbstats", "distinct",
        "find", "getLog", "getParameter", "hello", "hostInfo", "isMaster", "ismaster", "listCollections",
        "listCommands",
        "listDatabases", "listIndexes", "ping", "replSetGetConfig", "replSetGetStatus", "serverStatus",
    )
)  # fmt: skip
_PRIMARY: Mapping[str, Any] = {"mode": "primary"}
ANY_MEMBER: Mapping[str, Any] = {"mode": "nearest"}


class Unreachable(Exception):
    """No server could take the command, or its outcome is unknown; the message is for the user."""


class Deployment:
    """Blocking access to the servers of `address`."""

    def __init__(self, address: Address) -> None:
        """Errors: Unreachable, where the files of the encryption cannot be used."""
        self.address = address
        try:
            self._context = None if address.encryption is None else address.encryption.context()
        except Unusable as error:
            raise Unreachable(str(error)) from error
        self._follow = not address.direct and (len(address.hosts) > 1 or address.replica_set is not None)
        self._users: list[Credentials] = [address.credentials] if address.credentials is not None else []
        self._clients: dict[tuple[str, int], WireClient] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        for host in address.hosts:
            self._client(host)
        self._primary: WireClient | None = None
        self._chosen: dict[str, tuple[WireClient, float]] = {}
        self._active: WireClient | None = None
        self._last = address.hosts[0]
        self._interrupted = False

    @property
    def last_server(self) -> int:
        """The number of the server that answered last."""
        return self._numbers[self._last]

    def run(self, body: bytes, *, preference: Mapping[str, Any] | None = None, server: int = 0) -> bytes:
        """Send a command to a fitting server and give its reply. Errors: Unreachable.

        `preference` is a read preference, for commands that any member may answer; `server`, when not 0, is the only
        server that will do.
        """
        if server or not self._follow:
            host = self._host(server) if server else self.address.hosts[0]
            return self._run_on(self._client(host), body)
        read_preference = preference or _PRIMARY
        name = _command_name(body)
        deadline = time.monotonic() + (self.address.selection_timeout or PRIMARY_WAIT)
        while True:
            client = self._choose(deadline, read_preference)
            try:
                reply = self._run_on(client, body)
            except Unreachable as error:
                self._forget_choices()
                self._put_last(client)
                lost = error.__cause__
                sent = isinstance(lost, ConnectionLost) and lost.sent
                refused = isinstance(lost, Refused)
                if refused or (sent and name not in _READS) or self._interrupted or time.monotonic() > deadline:
                    raise
            else:
                if (
                    not _refused_as_secondary(reply)
                    or read_preference["mode"] != "primary"
                    or time.monotonic() > deadline
                ):
                    return reply
                self._forget_choices()
            time.sleep(RETRY_PAUSE)

    def authenticate(self, credentials: Credentials) -> None:
        """Authenticate as this user on all connections. Errors: Unreachable, also if the server refuses."""
        client = self._client(self._last)
        self._users = [user for user in self._users if user.source != credentials.source]
        try:
            authenticate(client, credentials)
        except (Refused, ConnectionLost) as error:
            raise Unreachable(str(error)) from error
        self._users.append(credentials)
        for other in self._clients.values():
            if other is not client:
                other.close()

    def forget_user(self, source: str) -> None:
        """Stop being the user that the database `source` knows, on new connections."""
        self._users = [user for user in self._users if user.source != source]

    def second_client(self) -> WireClient:
        """Return a connection of its own to the server of the last command; the caller closes it."""
        active = self._active
        return self._new_client(active.host if active is not None else self._last)

    def begin(self) -> None:
        """End an interruption: further commands run again."""
        self._interrupted = False

    def interrupt(self) -> None:
        """Make a waiting `run` fail, and those that follow until `begin`; called from another thread."""
        self._interrupted = True
        if self._active is not None:
            self._active.interrupt()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _run_on(self, client: WireClient, body: bytes) -> bytes:
        self._active = client
        try:
            reply = client.run(body)
        except ConnectionLost as error:
            prefix = f"network error while attempting to run command '{_command_name(body)}': " if error.sent else ""
            raise Unreachable(f"{prefix}{error}") from error
        except Refused as error:
            raise Unreachable(str(error)) from error
        finally:
            self._active = None
        self._last = client.host
        return reply

    def _choose(self, deadline: float, preference: Mapping[str, Any]) -> WireClient:
        """Return the server for a read preference. Waits for a primary, or another suitable member."""
        cached_client = self._standing(preference)
        if cached_client is not None:
            return cached_client
        while True:
            members, failures = self._survey()
            member = choose(members, preference)
            if member is not None:
                client = self._client(member.host)
                if member.writable:
                    self._primary = client
                if preference["mode"] != "primary":
                    self._chosen[repr(preference)] = (client, time.monotonic() + SURVEY_SECONDS)
                return client
            if time.monotonic() > deadline or len(failures) == len(self._clients):
                role = (
                    "primary" if preference["mode"] == "primary" else f"what the read preference {preference} asks for"
                )
                reasons = "; ".join(failures) or f"none of the reachable members is {role}"
                raise Unreachable(f"no server of {self.address} can take the command: {reasons}")
            time.sleep(RETRY_PAUSE)

    def _standing(self, preference: Mapping[str, Any]) -> WireClient | None:
        if preference["mode"] == "primary":
            return self._primary
        client, until = self._chosen.get(repr(preference), (None, 0.0))
        return client if until > time.monotonic() else None

    def _survey(self) -> tuple[list[Member], list[str]]:
        """Ask every known server for its role, also those discovered that way."""
        members: list[Member] = []
        failures: list[str] = []
        surveyed_hosts: set[tuple[str, int]] = set()
        while remaining := [host for host in self._clients if host not in surveyed_hosts]:
            host = remaining[0]
            surveyed_hosts.add(host)
            if self._interrupted:
                raise Unreachable("interrupted")
            self._active = client = self._client(host)
            started = time.monotonic()
            try:
                hello = client.hello()
            except ConnectionLost as error:
                failures.append(str(error))
                continue
            except Refused as error:
                raise Unreachable(str(error)) from error
            member = Member(host, hello, time.monotonic() - started)
            set_name = self.address.replica_set
            if set_name is not None and hello.get("setName") != set_name and not member.router:
                failures.append(f"{host[0]}:{host[1]} is no member of the set {set_name}")
                continue
            members.append(member)
            for other in member.known_addresses():
                self._client(other)
            if member.router:
                break
        return members, failures

    def _put_last(self, client: WireClient) -> None:
        """Try the other servers first from now on."""
        self._clients[client.host] = self._clients.pop(client.host)

    def _forget_choices(self) -> None:
        self._primary = None
        self._chosen.clear()

    def _host(self, number: int) -> tuple[str, int]:
        return next(host for host, server_number in self._numbers.items() if server_number == number)

    def _client(self, host: tuple[str, int]) -> WireClient:
        if host not in self._clients:
            self._clients[host] = self._new_client(host)
            self._numbers[host] = len(self._numbers) + 1
        return self._clients[host]

    def _new_client(self, host: tuple[str, int]) -> WireClient:
        address = self.address
        return WireClient(
            host,
            timeout=address.timeout,
            reply_timeout=address.reply_timeout,
            greet=lambda client: greet(client, address.application, self._users),
            stopped=lambda: self._interrupted,
            context=self._context,
        )


def _command_name(body: bytes) -> str:
    return body[5 : body.index(b"\0", 5)].decode()


def _refused_as_secondary(reply: bytes) -> bool:
    if len(reply) > 4096:
        return False
    fields = document_to_python(reply)
    return not fields.get("ok") and fields.get("code") in NOT_PRIMARY_CODES
