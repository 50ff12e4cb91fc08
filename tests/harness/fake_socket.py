"""The transport of a connection without a socket, whose client sends at will."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any


class FakeSocket(asyncio.Transport):
    """Keeps what is written. `is_paused`: nothing is read from the client."""

    def __init__(self) -> None:
        super().__init__({"socket": SimpleNamespace(family=socket.AF_UNIX)})
        self.sent: list[bytes] = []
        self.is_paused = False
        self.is_closed = False
        self.most_buffered = 0

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.most_buffered = high or 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True
