"""A program in a pseudo-terminal, as a person would use it, with the screen that the person sees."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.harness.screen_text import ScreenText

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS = 24, 1000
"""So wide that nothing wraps."""


class Terminal:
    """A running program. Use as a context manager; `screen` is what has been shown so far, `raw` what was written."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            list(command), stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env={**os.environ, "TERM": "xterm", **environment},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.screen = ScreenText(ROWS)
        self.raw = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._master)

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, shown: Callable[[ScreenText], bool], timeout: float = 20.0) -> None:
        """Read until the screen is as wanted."""
        end = time.monotonic() + timeout
        while not shown(self.screen):
            last = self.screen.lines(max(0, self.screen.row - 30), self.screen.row + 1)
            assert time.monotonic() < end, "not shown in time; on the screen:\n" + "\n".join(last)
            self.read(0.1)

    def read(self, seconds: float) -> None:
        """Take in what is written within a time, and answer as a terminal does."""
        if select.select([self._master], [], [], seconds)[0]:
            text = self._decode(os.read(self._master, 65536))
            self.raw += text
            for answer in self.screen.feed(text):
                self.send(answer)

    def exit_code(self, timeout: float = 20.0) -> int:
        """Wait for the program's end."""
        end = time.monotonic() + timeout
        while self._process.poll() is None and time.monotonic() < end:
            try:
                self.read(0.05)
            except OSError:
                break  # the other side is closed
        return self._process.wait(timeout)
