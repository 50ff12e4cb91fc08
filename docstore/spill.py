"""Disk space for data that exceeds memory: sorted runs in one unnamed file, which disappears with its process.

The file is created on first use and frees its space when it is closed, also by a crash: it is unlinked as soon as it
is open.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from docstore.aggregation.stage import Run, Unread
from docstore.buffers import BUFFERS

_HEAD = struct.Struct("<II")
_READ_BYTES = 64 * 1024
_MIN_READ_BYTES = 4096
_WRITTEN_BYTES = 1024 * 1024
"""Bytes that are put together to be written at one go."""

Pair = tuple[bytes, bytes]


class SpillFile:
    """Serves `docstore.aggregation.stage.Spill`. The file stands in `_tmp` below the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None
        self._end = 0

    def write(self, records: Iterable[Pair]) -> Run:
        """Keep a run; as many records as may be written at one go."""
        if self._descriptor is None:
            directory = self._directory / "_tmp"
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor, name = tempfile.mkstemp(prefix="spill.", dir=directory)
            os.unlink(name)
        start = self._end
        parts: list[bytes] = []
        size = 0
        for key, data in records:
            parts += (_HEAD.pack(len(key), len(data)), key, data)
            size += _HEAD.size + len(key) + len(data)
            if size >= _WRITTEN_BYTES:
                self._append(parts)
                parts, size = [], 0
        self._append(parts)
        return SpilledRun(self, start, self._end)

    def _append(self, parts: list[bytes]) -> None:
        assert self._descriptor is not None, "the file is there when something is written"
        written = b"".join(parts)
        os.pwrite(self._descriptor, written, self._end)
        self._end += len(written)
        BUFFERS.spilled += len(written)

    def read(self, start: int, size: int) -> bytes:
        """Bytes of the file."""
        assert self._descriptor is not None, "a run is read after it was written and before the file is closed"
        return os.pread(self._descriptor, size, start)

    def close(self) -> None:
        """Free the space."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class SpilledRun:
    """The bytes [start, end) of the file."""

    def __init__(self, file: SpillFile, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._end = end

    def records(self) -> Iterator[Pair]:
        """The records, read a piece at a time."""
        for key, data in self.unread(_READ_BYTES):
            yield key, data if isinstance(data, bytes) else data()

    def unread(self, ahead: int) -> Iterator[tuple[bytes, Unread]]:
        """See `docstore.aggregation.stage.Run`."""
        piece = max(_MIN_READ_BYTES, min(ahead, _READ_BYTES))
        buffer = b""
        at = 0
        where = self._start
        while at < len(buffer) or where < self._end:
            needed = _HEAD.size
            if len(buffer) - at >= _HEAD.size:
                key_size, data_size = _HEAD.unpack_from(buffer, at)
                middle = at + _HEAD.size + key_size
                if len(buffer) - at >= needed + key_size + data_size:
                    yield buffer[at + _HEAD.size : middle], buffer[middle : middle + data_size]
                    at = middle + data_size
                    continue
                needed += key_size
                if len(buffer) >= middle:
                    data_at = where - len(buffer) + middle
                    if data_size > piece:
                        key = buffer[at + _HEAD.size : middle]
                        buffer, at, where = b"", 0, data_at + data_size
                        yield key, partial(self._file.read, data_at, data_size)
                        continue
                    needed += data_size
            data = self._file.read(where, min(max(piece, needed), self._end - where))
            assert data, "a run ends with a whole record"
            buffer, at, where = buffer[at:] + data, 0, where + len(data)
