"""The shell in a pseudo-terminal, as a person would use it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|[\r\b]")
_CURSOR_QUESTION = b"\x1b[6n"
ROOT = Path(__file__).parents[3]


class Terminal:
    """A running shell. Use as a context manager."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shell", *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "HOME": str(home)},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, text: str, timeout: float = 20.0) -> str:
        """Everything shown up to and with `text`, without control sequences.

        Blanks at the end of a line may be missing: the shell moves the cursor over them.
        """
        raw, end = b"", time.monotonic() + timeout
        while True:
            shown = _CONTROL.sub("", raw.decode(errors="replace"))
            if text in shown:
                return shown
            assert time.monotonic() < end, f"{text!r} did not come; shown: {shown!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                data = os.read(self._master, 65536)
                if _CURSOR_QUESTION in data:
                    os.write(self._master, b"\x1b[1;1R")  # a terminal answers where its cursor is
                raw += data

    def exit_code(self, timeout: float = 20.0) -> int:
        while self._process.poll() is None and select.select([self._master], [], [], 0.1)[0]:
            try:
                os.read(self._master, 65536)
            except OSError:
                break
        return self._process.wait(timeout)
