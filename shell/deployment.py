"""The servers behind one address: which of them gets a command.

One host given and no set named: that server, whatever it is. Several hosts or a set named: a router that answers, the
set's primary, or for commands that allow it any member; others take over when one is gone. A command whose outcome is
unknown is repeated only when repeating does no harm.
"""

from __future__ import annotations

import time
from typing import Any

import bson

from shell.address import Address
from shell.wire_client import ConnectionLost, WireClient

NOT_PRIMARY_CODES = frozenset((10107, 13435, 13436, 11600, 11602, 91, 189))
PRIMARY_WAIT = 12.0
RETRY_PAUSE = 0.2

# Commands that change nothing, so that they may be sent twice.
_READS = frozenset(
    (
        "aggregate", "buildInfo", "buildinfo", "collStats", "collstats", "count", "dbStats", "dbstats", "distinct",
        "find", "getLog", "getParameter", "hello", "hostInfo", "isMaster", "ismaster", "listCollections",
        "listCommands",
        "listDatabases", "listIndexes", "ping", "replSetGetConfig", "replSetGetStatus", "serverStatus",
    )
)  # fmt: skip


class Unreachable(Exception):
    """No server could take the command, or nobody knows whether it did; the message is for the user."""


class Deployment:
    """Blocking access to the servers of `address`."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._follow = len(address.hosts) > 1 or address.replica_set is not None
        self._clients = {host: WireClient(host, timeout=address.timeout) for host in address.hosts}
        self._primary: WireClient | None = None
        self._active: WireClient | None = None
        self._interrupted = False

    def run(self, body: bytes, *, any_member: bool) -> bytes:
        """Send a command to a fitting server and give its reply. Errors: Unreachable."""
        self._interrupted = False
        if not self._follow:
            return self._run_on(self._client(self.address.hosts[0]), body)
        name = _command_name(body)
        deadline = time.monotonic() + PRIMARY_WAIT
        while True:
            client = self._choose(deadline, any_member=any_member)
            try:
                reply = self._run_on(client, body)
            except Unreachable as error:
                self._primary = None
                self._put_last(client)
                lost = error.__cause__
                assert isinstance(lost, ConnectionLost)
                if (lost.sent and name not in _READS) or self._interrupted or time.monotonic() > deadline:
                    raise
            else:
                if not _refused_as_secondary(reply) or any_member or time.monotonic() > deadline:
                    return reply
                self._primary = None
            time.sleep(RETRY_PAUSE)

    def interrupt(self) -> None:
        """Make a waiting `run` fail; called from another thread."""
        self._interrupted = True
        if self._active is not None:
            self._active.interrupt()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _run_on(self, client: WireClient, body: bytes) -> bytes:
        self._active = client
        try:
            return client.run(body)
        except ConnectionLost as error:
            what = "network error while attempting to run command" if error.sent else "cannot send command"
            raise Unreachable(f"{what} '{_command_name(body)}': {error}") from error
        finally:
            self._active = None

    def _choose(self, deadline: float, *, any_member: bool) -> WireClient:
        """A live router, the primary, or any live member. Waits for a primary to be elected."""
        if self._primary is not None:
            return self._primary
        while True:
            client, failures = self._look(any_member=any_member)
            if client is not None:
                return client
            if time.monotonic() > deadline or len(failures) == len(self._known()):
                reasons = "; ".join(failures) or "none of the reachable members is primary"
                raise Unreachable(f"no server of {self.address} can take the command: {reasons}")
            time.sleep(RETRY_PAUSE)

    def _look(self, *, any_member: bool) -> tuple[WireClient | None, list[str]]:
        failures: list[str] = []
        spare = None
        for host in self._known():
            if self._interrupted:
                raise Unreachable("interrupted")
            self._active = client = self._client(host)
            try:
                hello = client.hello()
            except ConnectionLost as error:
                failures.append(str(error))
                continue
            self._learn(hello)
            if hello.get("msg") == "isdbgrid" or hello.get("isWritablePrimary"):
                self._primary = client
                return client, failures
            if hello.get("secondary"):
                spare = spare or client
        return (spare if any_member else None), failures

    def _put_last(self, client: WireClient) -> None:
        """Try the others first from now on."""
        self._clients[client.host] = self._clients.pop(client.host)

    def _known(self) -> tuple[tuple[str, int], ...]:
        return tuple(self._clients)

    def _learn(self, hello: dict[str, Any]) -> None:
        primary = hello.get("primary")
        if isinstance(primary, str):
            name, _, port = primary.rpartition(":")
            self._client((name, int(port)))

    def _client(self, host: tuple[str, int]) -> WireClient:
        if host not in self._clients:
            self._clients[host] = WireClient(host, timeout=self.address.timeout)
        return self._clients[host]


def _command_name(body: bytes) -> str:
    return body[5 : body.index(b"\0", 5)].decode()


def _refused_as_secondary(reply: bytes) -> bool:
    if len(reply) > 4096:
        return False
    fields = bson.decode(reply)
    return not fields.get("ok") and fields.get("code") in NOT_PRIMARY_CODES
