"""The shell's output: plain text, results in colour on a terminal, and one progress line below them.

The progress line is erased before anything else is printed. Colour is used on terminals that support it, unless the
environment forbids it (NO_COLOR).
"""

from __future__ import annotations

import os
import re
import threading
from typing import Protocol

BAR_WIDTH = 30
_RESET, _RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN = "\x1b[0m", *(f"\x1b[{code}m" for code in range(31, 37))
_TOKENS = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"(?=\s:\s))|(?P<string>"(?:[^"\\]|\\.)*")|"""
    r"""(?P<name>\b(?:ObjectId|ISODate|NumberLong|NumberInt|NumberDecimal|Timestamp|BinData|UUID|DBRef|DBPointer|"""
    r"""WriteResult|BulkWriteResult|HexData)\b)|(?P<word>\b(?:true|false|null|undefined|NaN|Infinity)\b)|"""
    r"""(?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]))"""
)
_COLOURS = {"key": _CYAN, "string": _GREEN, "name": _BLUE, "word": _MAGENTA, "number": _YELLOW}


class Output(Protocol):
    """A sink of text."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class Screen:
    """The screen. `live`: an interactive terminal, on which progress is shown."""

    def __init__(self, output: Output, *, live: bool = False, colour: bool = False) -> None:
        self._output = output
        self.live = live
        self.colour = colour
        self._lock = threading.Lock()
        self._line = False

    def write(self, text: str) -> None:
        with self._lock:
            self._clear()
            self._output.write(text)
            self._output.flush()

    def write_result(self, text: str) -> None:
        """Print the text of a value."""
        self.write(_coloured(text) if self.colour else text)

    def write_failure(self, text: str) -> None:
        """Print the text of an error."""
        self.write(f"{_RED}{text}{_RESET}" if self.colour else text)

    def progress(self, label: str, done: float, total: float) -> None:
        """Show the progress of `label`; an empty `label` removes the line. A total of 0 is unknown."""
        if not self.live:
            return
        with self._lock:
            if not label:
                self._clear()
                return
            self._output.write(f"\r{progress_text(label, int(done), int(total))}\x1b[K")
            self._output.flush()
            self._line = True

    def _clear(self) -> None:
        if self._line:
            self._output.write("\r\x1b[K")
            self._output.flush()
        self._line = False


def progress_text(label: str, done: int, total: int) -> str:
    """Return one line: a bar and a percentage if the total is known, else the count."""
    if total <= 0:
        return f"{label}: {done}" if done else f"{label} ..."
    share = min(1.0, done / total)
    bar = ("=" * int(share * BAR_WIDTH)).ljust(BAR_WIDTH)
    return f"{label}: [{bar}] {share:4.0%} {done}/{total}"


def has_colours(is_terminal: bool) -> bool:
    """True if output to this terminal should be coloured."""
    return is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM", "dumb") != "dumb"


def _coloured(text: str) -> str:
    return _TOKENS.sub(lambda match: f"{_COLOURS[match.lastgroup or '']}{match[0]}{_RESET}", text)
