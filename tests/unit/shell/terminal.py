"""The shell in a pseudo-terminal, read as a stream."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from tests.harness import terminal

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|[\r\b]")
ROOT = terminal.ROOT


class Terminal(terminal.Terminal):
    """A running shell. Use as a context manager."""

    def __init__(self, home: Path, *arguments: str) -> None:
        super().__init__([sys.executable, "-m", "shell", *arguments], {"HOME": str(home)})
        self.raw = ""

    def read_until(self, text: str, timeout: float = 20.0) -> str:
        """Everything shown since the last call, up to and with `text`, without control sequences.

        Blanks at the end of a line may be missing: the shell moves the cursor over them.
        """
        end = time.monotonic() + timeout
        self.raw = ""
        while True:
            shown = _CONTROL.sub("", self.raw)
            if text in shown:
                return shown
            assert time.monotonic() < end, f"{text!r} did not come; shown: {shown!r}"
            self.read(0.1)
