"""The TLS engine of one connection, from bytes to bytes, in slices of a few records.

Each record costs its receiver work, however short it is: a key update of 27 bytes has keys derived and is answered. One
call of the engine would work off all records that are there, so it is given few at a time.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

MAX_SLICE_RECORDS = 16
"""The records that are decrypted at a time."""
MAX_SILENT_RECORDS = 64
"""A peer may send so many records that carry no data, and one more for each `RECORDS_OF_SILENT_ONE` that it sends.

(Keys are updated after millions of records.)
"""
RECORDS_OF_SILENT_ONE = 1024
_RECORD_BYTES = 16 * 1024
_HEAD_BYTES = 5


class Ciphertext:
    """Received bytes that the engine has not been given yet."""

    __slots__ = ("_data", "_missing", "_start")

    def __init__(self) -> None:
        self._data = b""
        self._start = 0
        # The bytes still to come of a record that has been given in part.
        self._missing = 0

    def __len__(self) -> int:
        return len(self._data) - self._start

    @property
    def has_slice(self) -> bool:
        """True if there is more than a part of a record's head."""
        return len(self) >= (_HEAD_BYTES if not self._missing else 1)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._data = self._data[self._start :] + data if len(self) else data
        self._start = 0

    def next_slice(self, most: int = MAX_SLICE_RECORDS) -> tuple[bytes, int]:
        """Return (the next bytes, the number of records that begin in them): of at most `most` records.

        The bytes are empty if there is nothing but a part of a record's head.
        """
        data = self._data
        end, records = self._start + self._missing, 0
        while records < most and end + _HEAD_BYTES <= len(data):
            end += _HEAD_BYTES + (data[end + 3] << 8 | data[end + 4])
            records += 1
        self._missing = max(end - len(data), 0)
        piece = data[self._start : end]
        if end >= len(data):
            self._data, self._start = b"", 0
        else:
            self._start = end
        return piece, records


class Records:
    """The engine. `server_name`: the expected name in the certificate of a server; None on the server side."""

    __slots__ = ("_incoming", "_outgoing", "_received", "_silent", "ciphertext", "tls")

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        self.ciphertext = Ciphertext()
        self._received = 0
        self._silent = 0
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )

    def shake_hands(self) -> bool:
        """Go on with the handshake, by a slice; True if it is done. Errors: OSError."""
        self._incoming.write(self.ciphertext.next_slice()[0])
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def send_own(self, transport: asyncio.Transport) -> None:
        """Send what the engine itself has to say."""
        if self._outgoing.pending:
            transport.write(self._outgoing.read())

    def decrypted(self, most: int = MAX_SLICE_RECORDS) -> tuple[bytes, bool]:
        """Return (the data of the next slice, of at most `most` records, True at the end of the stream).

        Errors: ssl.SSLError, also for too many records without data.
        """
        piece, records = self.ciphertext.next_slice(most)
        self._incoming.write(piece)
        pieces: list[bytes] = []
        ended = False
        try:
            while not ended and (self._incoming.pending or self.tls.pending()):
                piece = self.tls.read(_RECORD_BYTES)
                pieces.append(piece)
                ended = not piece
        except ssl.SSLWantReadError:
            pass
        self._received += records
        # A record may end, and have its data, in a later slice than that in which it began.
        self._silent += records - len(pieces)
        if self._silent > MAX_SILENT_RECORDS + self._received // RECORDS_OF_SILENT_ONE:
            raise ssl.SSLError("too many records carry no data")
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
        return self._outgoing.read()
