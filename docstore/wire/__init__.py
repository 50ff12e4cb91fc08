"""The MongoDB wire protocol without I/O: bytes in, messages out; messages in, bytes out.

Source: the public specifications of OP_MSG, OP_COMPRESSED and the handshake. Documents stay raw slices of what arrived;
nothing here decodes one. A peer that breaks the protocol raises `ProtocolError`, which ends its connection and nothing
else.
"""

from docstore.wire.errors import ProtocolError
from docstore.wire.framing import MAX_MESSAGE_BYTES, FrameBuffer
from docstore.wire.message import Message, decode_frame, encode_message

__all__ = ["MAX_MESSAGE_BYTES", "FrameBuffer", "Message", "ProtocolError", "decode_frame", "encode_message"]
