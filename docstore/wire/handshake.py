"""Detection of a TLS handshake at the start of a connection.

A request may start with the same bytes. They differ further on: a request's `responseTo` is 0, and a handshake has a
version there.
"""

from __future__ import annotations

_HANDSHAKE, _MAJOR, _CLIENT_HELLO = 0x16, 3, 1
_MARKS = ((0, _HANDSHAKE), (1, _MAJOR), (5, _CLIENT_HELLO), (9, _MAJOR))


def is_handshake(data: bytes | bytearray) -> bool | None:
    """Return True if these first bytes of a connection are a TLS handshake; None if that is not decidable yet."""
    for offset, mark in _MARKS:
        if len(data) <= offset:
            return None
        if data[offset] != mark:
            return False
    return True


def hello_bytes(data: bytes) -> int:
    """Return the length of the message of these first bytes of a handshake."""
    return int.from_bytes(data[6:9], "big")
