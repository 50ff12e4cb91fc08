"""Telling the beginning of a TLS handshake from that of a request.

A request may begin with the same bytes; further in they differ, as a request answers none (its `responseTo` is 0, and
the byte there is a version in a handshake).
"""

from __future__ import annotations

_HANDSHAKE, _MAJOR, _CLIENT_HELLO = 0x16, 3, 1
_MARKS = ((0, _HANDSHAKE), (1, _MAJOR), (5, _CLIENT_HELLO), (9, _MAJOR))


def is_handshake(data: bytes | bytearray) -> bool | None:
    """Whether a connection that begins with this is encrypted; None while that cannot be said."""
    for place, mark in _MARKS:
        if len(data) <= place:
            return None
        if data[place] != mark:
            return False
    return True
