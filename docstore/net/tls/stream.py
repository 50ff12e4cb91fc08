"""A TLS connection: the protocol of a socket's transport, and the transport of an inner protocol.

- Nothing reaches the inner protocol before the handshake is done, which has a time limit.
- Written data beyond one slice waits unencrypted until its turn, so that a long reply is neither held twice nor holds
  the loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from docstore.tls import reason_of

HANDSHAKE_SECONDS = 10.0
_RECORD_BYTES = 16 * 1024
_SLICE_BYTES = 512 * 1024


class _Records:
    """The TLS engine of one connection, from bytes to bytes."""

    __slots__ = ("_incoming", "_outgoing", "tls")

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._incoming.write(data)

    def to_send(self) -> bytes:
        """Return the bytes that the TLS engine itself has to send."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def decrypted(self) -> tuple[bytes, bool]:
        """Return (decrypted bytes, True at the end of the stream). Errors: ssl.SSLError."""
        pieces: list[bytes] = []
        ended = False
        try:
            while not ended and (self._incoming.pending or self.tls.pending()):
                piece = self.tls.read(_RECORD_BYTES)
                pieces.append(piece)
                ended = not piece
        except ssl.SSLWantReadError:
            pass
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), ended

    def encrypted(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the data encrypted. Errors: ssl.SSLError."""
        written = self.tls.write(data)
        while written < len(data):
            written += self.tls.write(memoryview(data)[written:])
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Return the close notification; its answer is not awaited."""
        with suppress(ssl.SSLError):
            self.tls.unwrap()
        return self.to_send()


class TlsStream(asyncio.Transport, asyncio.Protocol):
    """A TLS stream. `begin` starts the handshake. On success `secured` is called.

    On a failure `failed` is called with the reason, and the connection is closed.
    """

    __slots__ = (
        "_closing", "_done", "_error", "_failed", "_inner", "_loop", "_records", "_secured", "_timer", "_told_to_pause",
        "_under", "_under_full", "_waiting", "tls",
    )  # fmt: skip

    def __init__(
        self,
        context: ssl.SSLContext,
        under: asyncio.Transport,
        inner: asyncio.Protocol,
        *,
        server_name: str | None = None,
        secured: Callable[[TlsStream], None],
        failed: Callable[[str], None],
    ) -> None:
        """`server_name`: the expected name in the certificate of a server; None on the server side."""
        super().__init__()
        self._records = _Records(context, server_name)
        self.tls = self._records.tls
        self._under = under
        self._inner = inner
        self._secured = secured
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._done = False
        self._closing = False
        self._error: ssl.SSLError | None = None
        self._under_full = False
        self._told_to_pause = False
        self._waiting: deque[memoryview] = deque()

    def begin(self, data: bytes = b"") -> None:
        """Take over the transport. `data`: bytes it has already received."""
        self._under.set_protocol(self)
        self._timer = self._loop.call_later(
            HANDSHAKE_SECONDS, self._give_up, f"no handshake within {HANDSHAKE_SECONDS:g} s", self._under.abort
        )
        if data:
            self.data_received(data)
        else:
            self._shake_hands()

    # The protocol of the transport below.

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._records.feed(data)
        if not self._done and not self._shake_hands():
            return
        try:
            plain, ended = self._records.decrypted()
        except ssl.SSLError as error:
            # The peer rejected the completed handshake, or the data is forged.
            self._error = error
            self.abort()
            return
        self._flush()
        if plain:
            self._inner.data_received(plain)
        if ended:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._done and not self._closing:
            self._failed("the connection was closed during the handshake")
        self._closing = True
        self._waiting.clear()
        self._inner.connection_lost(error or self._error)

    def pause_writing(self) -> None:
        self._under_full = True
        self._regulate()

    def resume_writing(self) -> None:
        self._under_full = False
        if self._waiting:
            self._encrypt_next()
        else:
            self._regulate()

    # The transport of the protocol above.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if self._waiting or len(data) > _SLICE_BYTES:
            self._waiting.append(memoryview(data))
            if len(self._waiting) == 1:
                self._encrypt_next()
        else:
            self._encrypt(data)

    def writelines(self, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
        for piece in pieces:
            self.write(piece)

    def close(self) -> None:
        """Close after sending what was written."""
        if not self._closing:
            self._closing = True
            if not self._waiting:
                self._finish()

    def abort(self) -> None:
        self._closing = True
        self._waiting.clear()
        self._under.abort()

    def is_closing(self) -> bool:
        return self._closing or self._under.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._under.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Bound the encrypted bytes that are not sent."""
        self._under.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._under.pause_reading()

    def resume_reading(self) -> None:
        self._under.resume_reading()

    # In between.

    def _shake_hands(self) -> bool:
        """Continue the handshake; True if it is done and there may be more to read."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except OSError as error:
            # Send the peer the alert.
            self._flush()
            self._give_up(reason_of(error), self._under.close)
            return False
        self._flush()
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        self._secured(self)
        return not self._closing

    def _give_up(self, reason: str, end: Callable[[], None]) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._failed(reason)
        end()

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self._under.write(self._records.encrypted(data))
        except ssl.SSLError:
            self.abort()

    def _encrypt_next(self) -> None:
        """Encrypt and send one slice; schedule the next in another turn, unless the transport below is full."""
        if not self._waiting or self._under_full:
            self._regulate()
            return
        data = self._waiting[0]
        if len(data) > _SLICE_BYTES:
            self._waiting[0] = data[_SLICE_BYTES:]
        else:
            self._waiting.popleft()
        self._encrypt(data[:_SLICE_BYTES])
        if self._waiting:
            self._loop.call_soon(self._encrypt_next)
        elif self._closing:
            self._finish()
        self._regulate()

    def _regulate(self) -> None:
        """Pause or resume writing of the inner protocol, depending on the bytes waiting."""
        pause = self._under_full or bool(self._waiting)
        if pause != self._told_to_pause:
            self._told_to_pause = pause
            if pause:
                self._inner.pause_writing()
            else:
                self._inner.resume_writing()

    def _finish(self) -> None:
        if self._done:
            self._under.write(self._records.farewell())
        self._under.close()

    def _flush(self) -> None:
        data = self._records.to_send()
        if data:
            self._under.write(data)
