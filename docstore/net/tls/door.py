"""TLS detection: the first bytes of an accepted connection tell if it is encrypted; both kinds share a port.

If TLS is required, a connection that does not complete a handshake in time is closed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast

from docstore.log import component
from docstore.net.connection import Connection
from docstore.net.tls.certificates import TlsCertificates
from docstore.net.tls.stream import HANDSHAKE_SECONDS, TlsStream
from docstore.net.turn import Turn
from docstore.options.values import TlsMode
from docstore.security.certificates import BadCertificate
from docstore.wire.handshake import hello_bytes, is_handshake

LOG = component("NETWORK")
MAX_HELLO_BYTES = 8 * 1024
"""The longest first message of a handshake: each of its lists may have to be searched for each entry of another."""


class Door(asyncio.Protocol):
    """The protocol of an accepted socket on a listener with TLS. Passes it to its connection."""

    __slots__ = ("_certificates", "_connection", "_first", "_loop", "_timer", "_transport", "_turn")

    def __init__(
        self, certificates: TlsCertificates, connection: Connection, loop: asyncio.AbstractEventLoop, turn: Turn
    ) -> None:
        self._turn = turn
        self._certificates = certificates
        self._connection = connection
        self._loop = loop
        self._first = b""
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)
        if self._certificates.mode is TlsMode.REQUIRE:
            self._timer = self._loop.call_later(HANDSHAKE_SECONDS, self._late)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None, "nothing comes before the connection is made"
        if self._transport.is_closing():
            return
        self._first += data
        encrypted = is_handshake(self._first)
        if encrypted is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if encrypted and hello_bytes(self._first) > MAX_HELLO_BYTES:
            self._refuse(f"a first message of {hello_bytes(self._first)} bytes is longer than {MAX_HELLO_BYTES}")
            self._transport.close()
        elif encrypted:
            stream = TlsStream(
                self._certificates.accepting,
                self._transport,
                cast(asyncio.Protocol, self._connection),
                secured=partial(secured, self._certificates, self._connection),
                failed=self._refuse,
                defer=self._defer,
            )
            self._connection.transport = stream
            stream.begin(self._first)
        elif self._certificates.mode is TlsMode.REQUIRE:
            self._refuse("The server is configured to only allow SSL connections")
            self._transport.close()
        else:
            self._transport.set_protocol(cast(asyncio.Protocol, self._connection))
            self._connection.data_received(self._first)

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_lost(error)

    def _defer(self, stream: TlsStream) -> None:
        """Let the stream advance in the time for deferred work: handshakes are those of strangers."""
        self._turn.defer(stream, self._connection.is_stranger or not stream.is_secured)

    def _late(self) -> None:
        assert self._transport is not None, "nobody waits before the connection is made"
        self._refuse(f"no handshake within {HANDSHAKE_SECONDS:g} s")
        self._transport.abort()

    def _refuse(self, reason: str) -> None:
        LOG.info(
            "Error receiving request from client. Ending connection from remote",
            error={"code": 141, "codeName": "SSLHandshakeFailed", "errmsg": reason},
            **self._connection.peer.describe(),
        )


def secured(certificates: TlsCertificates, connection: Connection, stream: TlsStream) -> None:
    """Record the handshake's certificate and protocol."""
    certificates.accepted(stream.tls.version(), connection.peer.remote)
    try:
        connection.peer.subject = certificates.subject_shown(stream.tls)
    except BadCertificate as error:
        LOG.warning("A certificate cannot be read", reason=str(error), **connection.peer.describe())
        connection.abort()
