"""What a peer that breaks the protocol causes."""

from __future__ import annotations


class ProtocolError(Exception):
    """The bytes are not a message that this server takes; the connection they came on must be closed."""
