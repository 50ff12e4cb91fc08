"""A TLS connection: the protocol of a socket's transport, and the transport of an inner protocol.

- Nothing reaches the inner protocol before the handshake is done, which has a time limit.
- Handshakes, and input of more than a few records, are worked off in slices, each when the turn of the loop has time
  for it (`docstore.net.turn`); meanwhile little more is read.
- Written data beyond one slice waits unencrypted until its turn, so that a long reply is neither held twice nor holds
  the loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from docstore.net.tls.records import MAX_SLICE_RECORDS, Records
from docstore.tls import reason_of

HANDSHAKE_SECONDS = 10.0
_SLICE_BYTES = 512 * 1024
_INLINE_RECORDS = 2
"""Input of more records is not decrypted where it is received: most requests are one record."""
_MAX_WAITING_BYTES = 64 * 1024
"""Reading pauses while more input than this waits to be decrypted."""


class TlsStream(asyncio.Transport, asyncio.Protocol):
    """A TLS stream. `begin` starts the handshake. On success `is_secured` is True, and `secured` is called.

    On a failure `failed` is called with the reason, and the connection is closed. `defer` has `advance` called soon.
    """

    __slots__ = (
        "_closing", "_defer", "_error", "_failed", "_inner", "_is_deferred", "_is_held", "_is_lost", "_is_paused",
        "_loop", "_records", "_secured", "_timer", "_told_to_pause", "_under", "_under_full", "_waiting", "is_secured",
        "tls",
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
        defer: Callable[[TlsStream], object],
    ) -> None:
        """`server_name`: the expected name in the certificate of a server; None on the server side."""
        super().__init__()
        self._records = Records(context, server_name)
        self.tls = self._records.tls
        self._under = under
        self._inner = inner
        self._secured = secured
        self._failed = failed
        self._defer = defer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.is_secured = False
        self._closing = False
        self._is_deferred = False
        # Reading is paused: by the inner protocol; for input that waits here.
        self._is_paused = False
        self._is_held = False
        # The transport below has ended, and its input is not worked off yet.
        self._is_lost = False
        self._error: Exception | None = None
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
        ciphertext = self._records.ciphertext
        ciphertext.feed(data)
        if not self._is_deferred and not self._is_paused:
            if self.is_secured:
                self.advance(0.0, _INLINE_RECORDS)
            else:
                _advance_soon(self)
        if len(ciphertext) > _MAX_WAITING_BYTES and not self.is_closing():
            self._is_held = True
            self._under.pause_reading()

    def advance(self, until: float, most: int = MAX_SLICE_RECORDS) -> None:
        """Work off one slice of the input, of at most `most` records; defer what remains. `until` is of no matter."""
        self._is_deferred = False
        if not self._closing and (self.is_secured or self._shake_hands()):
            try:
                plain, ended = self._records.decrypted(most)
            except ssl.SSLError as error:
                # The peer rejected the completed handshake, the data is forged, or there is none.
                self._error = error
                self.abort()
                plain, ended = b"", False
            else:
                self._records.send_own(self._under)
            if plain:
                self._inner.data_received(plain)
            if ended:
                self.close()
        has_more = self._records.ciphertext.has_slice and not self._closing
        if has_more:
            if self._is_lost or not self._is_paused:
                _advance_soon(self)
        elif self._is_lost:
            self._is_lost = False
            self.connection_lost(None)
        if self._is_held and not has_more and not self.is_closing():
            self._is_held = False
            if not self._is_paused:
                self._under.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._error = error or self._error
        if self._closing or not self.is_secured or not self._records.ciphertext.has_slice:
            if not self.is_secured and not self._closing:
                self._failed("the connection was closed during the handshake")
            self._closing = True
            self._waiting.clear()
            self._inner.connection_lost(self._error)
            return
        # What came before the end is still delivered.
        self._is_lost = True
        _advance_soon(self)

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
        self._is_paused = True
        self._under.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._records.ciphertext.has_slice:
            _advance_soon(self)
        if not self._is_held:
            self._under.resume_reading()

    # In between.

    def _shake_hands(self) -> bool:
        """Continue the handshake; True if it is done and there may be more to read."""
        try:
            self.is_secured = self._records.shake_hands()
        except OSError as error:
            # Send the peer the alert.
            self._records.send_own(self._under)
            self._give_up(reason_of(error), self._under.close)
            return False
        self._records.send_own(self._under)
        if self.is_secured:
            if self._timer is not None:
                self._timer.cancel()
            self._secured(self)
        return self.is_secured and not self._closing

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
        if self.is_secured:
            self._under.write(self._records.farewell())
        self._under.close()


def _advance_soon(stream: TlsStream) -> None:
    """Have the stream work off more of its input, unless that is to happen already."""
    if not stream._is_deferred:
        stream._is_deferred = True
        stream._defer(stream)
