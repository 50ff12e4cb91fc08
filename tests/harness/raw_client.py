"""A client of any server that sends documents as they are, many at a time."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import bson
from bson.binary import Binary

from docstore.security.scram import SHA_1
from docstore.security.scram_client import conversation
from docstore.wire.message import encode_message

Frame = tuple[bytes, Mapping[str, list[bytes]]]
"""A body, and the document sequences beside it."""
_HEADER = struct.Struct("<iii")
_BODY_AT = 21
_RECEIVED_BYTES = 1 << 18


class Unanswered(Exception):
    """A request, by its position, got no answer: the connection was closed, or time ran out."""

    def __init__(self, position: int, reason: Exception) -> None:
        super().__init__(f"no answer to request {position}: {reason}")
        self.position = position


class RawClient:
    """A connection to a port of this machine, logged in as a user of `admin`; None: as nobody."""

    def __init__(self, port: int, user: str | None, password: str = "p", timeout: float | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._last_id = 0
        if user is not None:
            self._log_in(user, password)

    def _log_in(self, user: str, password: str) -> None:
        messages = conversation(SHA_1, user, password, b"nonce" * 5)
        start = {"saslStart": 1, "mechanism": SHA_1, "payload": Binary(next(messages)), "$db": "admin"}
        reply = self.send(bson.encode(start))
        assert reply["ok"], reply
        while not reply["done"]:
            try:
                payload = messages.send(bytes(reply["payload"]))
            except StopIteration:
                payload = b""
            step = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": Binary(payload)}
            reply = self.send(bson.encode({**step, "$db": "admin"}))
            assert reply["ok"], reply

    def send(self, body: bytes, sequences: Mapping[str, list[bytes]] | None = None) -> dict[str, Any]:
        self.begin([(body, sequences or {})])
        (reply,) = self.finish(1)
        return bson.decode(reply)

    def run(self, db: str, command: Mapping[str, Any]) -> dict[str, Any]:
        return self.send(bson.encode({**command, "$db": db}))

    def begin(self, frames: Iterable[Frame]) -> None:
        """Send requests, and wait for none of the replies."""
        data = []
        for body, sequences in frames:
            self._last_id += 1
            data.append(encode_message(body, request_id=self._last_id, sequences=sequences.items()))
        self._socket.sendall(b"".join(data))

    def finish(self, count: int) -> list[bytes]:
        """The replies to the last `count` requests, in order. Errors: Unanswered."""
        first = self._last_id - count + 1
        replies: list[bytes] = [b""] * count
        for _ in range(count):
            try:
                answered, body = self._reply()
            except (ConnectionError, TimeoutError) as error:
                raise Unanswered(replies.index(b""), error) from error
            replies[answered - first] = body
        return replies

    def _reply(self) -> tuple[int, bytes]:
        """(request that is answered, document of the answer)."""
        buffer = self._buffer
        while len(buffer) < 4 or len(buffer) < int.from_bytes(buffer[:4], "little"):
            part = self._socket.recv(_RECEIVED_BYTES)
            if not part:
                raise ConnectionError("the server has closed the connection")
            buffer += part
        size, _, answered = _HEADER.unpack_from(buffer)
        body = bytes(buffer[_BODY_AT:size])
        del buffer[:size]
        return answered, body

    def has_reply(self, seconds: float) -> bool:
        """True if something comes within that time."""
        return bool(self._buffer) or bool(select.select([self._socket], [], [], seconds)[0])

    def close(self) -> None:
        self._socket.close()
