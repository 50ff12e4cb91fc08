"""The errors of malformed input."""

from __future__ import annotations

from docstore.widecolumn.protocol.opcodes import ErrorCode


class ProtocolViolation(Exception):
    """A request that the protocol does not allow. `stream`: the request's, if it is known."""

    code = ErrorCode.PROTOCOL_ERROR
    """That of the ERROR. Drivers close a connection that answers PROTOCOL_ERROR."""

    def __init__(self, message: str, stream: int = 0) -> None:
        super().__init__(message)
        self.stream = stream


class OversizedRequest(ProtocolViolation):
    """A body beyond the limit, which is passed over. INVALID: the connection serves the requests beside it."""

    code = ErrorCode.INVALID

    def __init__(self, length: int, limit: int, stream: int = 0) -> None:
        super().__init__(f"Request is too big: length {length} exceeds maximum allowed length {limit}.", stream)


class FramingViolation(ProtocolViolation):
    """Nothing after it on the connection can be read: ERROR 0x000A, then close."""


class UnsupportedVersion(FramingViolation):
    """The client speaks another version; it tries a lower one when it reads these words in lower case."""

    def __init__(self, version: int, stream: int) -> None:
        super().__init__(
            f"Invalid or unsupported protocol version ({version}); supported versions are (4/v4, 5/v5)", stream
        )


class DamagedSegment(ProtocolViolation):
    """A checksum does not match: the connection closes without a reply."""
