"""A blocking client for one server: one socket, one command at a time.

- A command that was sent and not answered has an unknown outcome: `ConnectionLost.sent` says so. One that could not
  be sent (`sent` False) has certainly not run.
- `interrupt` may be called from another thread; it makes a waiting command fail at once. A command that is about to
  wait checks `stopped` periodically.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import bson

from docstore.tls import reason_of
from docstore.wire import FrameBuffer, ProtocolError, decode_frame, encode_message

RECEIVE_BYTES = 1 << 20
LOOK_SECONDS = 0.2
"""The interval at which a wait for a reply checks for interruption."""


class ConnectionLost(Exception):
    """No reply. `sent`: the server may have got the command."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class WireClient:
    """A connection to `host`, opened when first used. Times in seconds.

    `greet` is called with the client on each new connection, before anything else is sent.
    """

    def __init__(
        self,
        host: tuple[str, int],
        *,
        timeout: float | None,
        reply_timeout: float | None = None,
        greet: Callable[[WireClient], None] | None = None,
        stopped: Callable[[], bool] = lambda: False,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`context`: with it the connection is encrypted."""
        self.host = host
        self._timeout = timeout
        self._reply_timeout = reply_timeout
        self._greet = greet
        self._stopped = stopped
        self._context = context
        self._poll = select.poll()
        self._socket: socket.socket | None = None
        self._buffer = FrameBuffer()
        self._ids = count(1)

    def hello(self, **fields: Any) -> dict[str, Any]:
        """Ask the server for its role. Errors: ConnectionLost."""
        return self.run_document({"hello": 1, "helloOk": True, **fields, "$db": "admin"})

    def run_document(self, command: dict[str, Any]) -> dict[str, Any]:
        """`run` with Python values both ways."""
        return dict(bson.decode(self.run(bson.encode(command))))

    def run(self, body: bytes) -> bytes:
        """Send one command (a whole document with `$db`) and wait for its reply. Errors: ConnectionLost."""
        self._drop_if_closed()
        if self._socket is None:
            self._connect()
        try:
            frame = encode_message(body, request_id=next(self._ids))
        except ProtocolError as error:
            raise ConnectionLost(str(error), sent=False) from error
        sent = False
        try:
            assert self._socket is not None
            self._socket.sendall(frame)
            sent = True
            return self._reply()
        except (OSError, ProtocolError) as error:
            self.close()
            raise ConnectionLost(f"{self._name()}: {error}", sent=sent) from error

    def interrupt(self) -> None:
        """Break the connection under a waiting `run`."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it was broken already

    def close(self) -> None:
        if self._socket is not None:
            self._poll.unregister(self._socket)
            self._socket.close()
            self._socket = None
        self._buffer = FrameBuffer()

    def _connect(self) -> None:
        try:
            connection = self._open()
        except OSError as error:
            reason = reason_of(error)
            message = f"couldn't connect to server {self._name()}, connection attempt failed: {reason}"
            raise ConnectionLost(message, sent=False) from error
        connection.settimeout(None)
        self._poll.register(connection, select.POLLIN | select.POLLRDHUP)
        self._socket = connection
        if self._greet is not None:
            try:
                self._greet(self)
            except ConnectionLost as error:
                raise ConnectionLost(str(error), sent=False) from error
            except Exception:
                self.close()
                raise

    def _open(self) -> socket.socket:
        """Open a connection, including the TLS handshake. Errors: OSError."""
        if self.host[0].startswith("/"):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(self._timeout)
            connection.connect(self.host[0])
        else:
            connection = socket.create_connection(self.host, timeout=self._timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return connection
        try:
            return self._context.wrap_socket(connection, server_hostname=self.host[0])
        except OSError:
            connection.close()
            raise

    def _drop_if_closed(self) -> None:
        """Detect that the server closed an idle connection, so that the command goes out on a new one."""
        if self._socket is not None and self._poll.poll(0) and not self._only_housekeeping():
            self.close()

    def _only_housekeeping(self) -> bool:
        """True if the pending bytes belong to TLS alone, like tickets for later handshakes."""
        connection = self._socket
        if not isinstance(connection, ssl.SSLSocket):
            return False
        connection.setblocking(False)
        try:
            connection.recv(1)
        except ssl.SSLWantReadError:
            connection.setblocking(True)
            return True
        except OSError:
            return False
        return False

    def _reply(self) -> bytes:
        connection = self._socket
        assert connection is not None
        encrypted = connection if isinstance(connection, ssl.SSLSocket) else None
        end = None if self._reply_timeout is None else time.monotonic() + self._reply_timeout
        while (frame := self._buffer.next_frame()) is None:
            # Bytes decrypted but not yet taken are invisible to select.
            while not (encrypted and encrypted.pending()) and not self._poll.poll(LOOK_SECONDS * 1000):
                if self._stopped():
                    raise OSError("interrupted")
                if end is not None and time.monotonic() > end:
                    raise TimeoutError("timed out")
            data = connection.recv(RECEIVE_BYTES) if encrypted is None else _received(encrypted)
            if data is None:
                continue
            if not data:
                raise OSError("the server closed the connection")
            self._buffer.feed(data)
        return decode_frame(frame).body

    def _name(self) -> str:
        name, port = self.host
        return name if name.startswith("/") else f"{name}:{port}"


def _received(connection: ssl.SSLSocket) -> bytes | None:
    """Return the received bytes; None if they belong to TLS alone. Errors: OSError."""
    connection.setblocking(False)
    try:
        return connection.recv(RECEIVE_BYTES)
    except ssl.SSLWantReadError:
        return None
    finally:
        connection.setblocking(True)
