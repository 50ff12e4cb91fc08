"""The MongoDB wire protocol without I/O: from bytes to messages and back.

Source: the public specifications of OP_MSG, OP_COMPRESSED and the handshake. Documents stay raw slices of the input;
nothing here decodes one. A protocol violation raises `ProtocolError`, which ends only its connection.
"""

from docstore.wire.errors import ProtocolError
from docstore.wire.framing import MAX_MESSAGE_BYTES, FrameBuffer
from docstore.wire.message import Message, decode_frame, encode_message

__all__ = ["MAX_MESSAGE_BYTES", "FrameBuffer", "Message", "ProtocolError", "decode_frame", "encode_message"]
