"""The error of a peer that violates the wire protocol."""

from __future__ import annotations


class ProtocolError(Exception):
    """The bytes are no valid message; their connection must be closed."""
