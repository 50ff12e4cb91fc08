"""A server of a few lines on a thread of its own: speaks OP_MSG, answers from a function."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import bson

from docstore.wire import FrameBuffer, decode_frame, encode_message

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


class FakeServer:
    """Answers every command with `answer(command)`; None closes the connection instead. Use as a context manager."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> FakeServer:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close everything, as if the process had died."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = FrameBuffer()
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                buffer.feed(data)
                while (frame := buffer.next_frame()) is not None:
                    message = decode_frame(frame)
                    command = bson.decode(message.body)
                    self.seen.append(next(iter(command)))
                    reply = self.answer(command)
                    if reply is None:
                        return
                    connection.sendall(encode_message(bson.encode(reply), request_id=1, response_to=message.request_id))


def router(command: dict[str, Any]) -> dict[str, Any]:
    return {"msg": "isdbgrid", "isWritablePrimary": True, "ismaster": True, "ok": 1.0}


def member(state: str, primary: str | None = None) -> Answer:
    """A member that is "primary" or "secondary" and takes writes accordingly."""

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        name = next(iter(command))
        if name in ("hello", "isMaster"):
            hello = {"setName": "s", "isWritablePrimary": state == "primary", "ismaster": state == "primary"}
            hello["secondary"] = state == "secondary"
            return hello | ({"primary": primary} if primary else {}) | {"ok": 1.0}
        if name == "insert" and state != "primary":
            return {"ok": 0.0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary"}
        return {"n": 1, "from": state, "ok": 1.0}

    return answer
