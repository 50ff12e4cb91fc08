"""The framing of one connection on the server's side: received bytes to requests, responses to bytes.

    codec.feed(data)
    while (envelope := codec.next_envelope()) is not None: ...
    transport.write(codec.encode(responses))

Bare envelopes come first, in both versions. `start` ends that for version 5: from then on everything is in segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from docstore.widecolumn.limits import MIN_COMPRESSED_BODY_BYTES
from docstore.widecolumn.protocol.compression import BODY_COMPRESSIONS, LZ4, BodyCompression
from docstore.widecolumn.protocol.envelopes import Envelope, EnvelopeBuffer, encode_envelope
from docstore.widecolumn.protocol.errors import DamagedSegment, ProtocolViolation
from docstore.widecolumn.protocol.opcodes import V5, EnvelopeFlag, Opcode
from docstore.widecolumn.protocol.segments import SegmentBuffer, encode_segments

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_STRANGER_BODY_BYTES = 64 * 1024
"""The maximal length of a body before the client has logged in."""


class Response(NamedTuple):
    """`flags`: those of its body."""

    stream: int
    opcode: Opcode
    body: bytes
    flags: int = 0


class ServerCodec:
    """See the module. `version`: the client's; None before its first request."""

    __slots__ = ("_body_compression", "_envelopes", "_is_slicing", "_segment_compression", "_segments")

    def __init__(self, *, limit: int = MAX_BODY_BYTES) -> None:
        self._envelopes = EnvelopeBuffer(limit)
        self._segments: SegmentBuffer | None = None
        self._segment_compression = False
        self._body_compression: BodyCompression | None = None
        self._is_slicing = False

    def __len__(self) -> int:
        """The number of bytes that are kept for requests that are not complete."""
        return len(self._envelopes) + (0 if self._segments is None else len(self._segments))

    @property
    def version(self) -> int | None:
        return self._envelopes.version

    @property
    def limit(self) -> int:
        """The maximal length of a body."""
        return self._envelopes.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._envelopes.limit = limit

    def start(self, compression: str | None) -> None:
        """Apply what STARTUP has agreed on, when its response has been encoded."""
        if self.version == V5:
            self._segment_compression = compression == LZ4
            self._segments = SegmentBuffer(compressed=self._segment_compression)
            self._segments.feed(self._envelopes.take_rest())
        elif compression is not None:
            self._body_compression = BODY_COMPRESSIONS[compression]

    def feed(self, data: bytes) -> None:
        if self._segments is None:
            self._envelopes.feed(data)
        else:
            self._segments.feed(data)

    def next_envelope(self) -> Envelope | None:
        """Return the next complete request; None if there is none.

        Errors: ProtocolViolation for a body that cannot be decompressed; OversizedRequest; FramingViolation and
        DamagedSegment, after which nothing more can be read.
        """
        envelope = self._envelopes.next_envelope()
        while envelope is None and self._segments is not None:
            if self._envelopes.is_amid and not self._is_slicing:
                raise DamagedSegment("a self-contained segment holds a part of an envelope")
            segment = self._segments.next_segment()
            if segment is None:
                return None
            if segment.is_self_contained and self._envelopes.is_amid:
                raise DamagedSegment("a self-contained segment is amid the slices of an envelope")
            self._is_slicing = not segment.is_self_contained
            self._envelopes.feed(segment.payload)
            envelope = self._envelopes.next_envelope()
        if envelope is None:
            return None
        if self._is_slicing and len(self._envelopes):
            raise DamagedSegment("a slice goes beyond the end of its envelope")
        if envelope.flags & EnvelopeFlag.COMPRESSED and envelope.version != V5:
            return self._inflated(envelope)
        return envelope

    def _inflated(self, envelope: Envelope) -> Envelope:
        if self._body_compression is None:
            raise ProtocolViolation("a compressed body, and no compression has been agreed on", envelope.stream)
        try:
            body = self._body_compression.inflate(envelope.body, self.limit)
        except ProtocolViolation as error:
            error.stream = envelope.stream
            raise
        return envelope._replace(body=body)

    def encode(self, responses: Iterable[Response], version: int | None = None) -> bytes:
        """Return the bytes of responses. `version`: for a refusal before the client's is known."""
        spoken = version or self.version or V5
        envelopes = [self._envelope(response, spoken) for response in responses]
        if self._segments is None:
            return b"".join(envelopes)
        return b"".join(encode_segments(envelopes, compressed=self._segment_compression))

    def _envelope(self, response: Response, version: int) -> bytes:
        body, flags = response.body, response.flags
        if self._body_compression is not None and len(body) >= MIN_COMPRESSED_BODY_BYTES:
            body, flags = self._body_compression.deflate(body), flags | EnvelopeFlag.COMPRESSED
        return encode_envelope(version, response.stream, response.opcode, body, flags)
