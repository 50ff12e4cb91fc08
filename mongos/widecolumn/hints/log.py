"""Hints on disk: one file a keyspace, its hints in the order in which they came.

A record is the number of bytes behind its head (4 bytes), their CRC-32 (4), the second in which it was kept (8) and the
command's document; numbers are little-endian. Invariants:

* what `append` has returned for is on disk, whatever becomes of the process;
* a file ends at the first record that is not whole or has another checksum: it is cut there when it is opened, since
  nothing behind that was acknowledged;
* a file is emptied only when all of its hints are done; after a crash those that were done may come again;
* one process at a time uses a directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docstore.log import component
from docstore.net.threads import on_thread

LOG = component("WIDE")
_HEAD = struct.Struct("<II")
_AT = struct.Struct("<Q")
_SUFFIX = ".hints"


class Hint(NamedTuple):
    """`at`: the second, since 1970, in which it was kept; `end`: where the next one stands in the file."""

    at: int
    command: bytes
    end: int


class HintsInUse(Exception):
    """Another process uses the directory."""


class _File:
    """`start` is where the first hint stands that is not done, `size` where the next one goes."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.start = self.size = self.hints = 0
        for hint in self._whole():
            self.size = hint.end
            self.hints += 1
        found = os.fstat(self.fd).st_size
        if found > self.size:
            LOG.warning("Hints that were not written whole are cut off", path=str(path), bytes=found - self.size)
            os.ftruncate(self.fd, self.size)
            os.fsync(self.fd)

    def _whole(self) -> Iterator[Hint]:
        at = 0
        while (hint := self.read(at)) is not None:
            yield hint
            at = hint.end

    def read(self, at: int) -> Hint | None:
        """The hint that stands there; None where there is none that is whole."""
        head = os.pread(self.fd, _HEAD.size, at)
        if len(head) < _HEAD.size:
            return None
        size, checksum = _HEAD.unpack(head)
        data = os.pread(self.fd, size, at + _HEAD.size)
        if len(data) < max(size, _AT.size) or zlib.crc32(data) != checksum:
            return None
        return Hint(_AT.unpack_from(data)[0], data[_AT.size :], at + _HEAD.size + size)


class HintLog:
    """The hints of a directory. `size`: the bytes that they take."""

    def __init__(self, directory: Path) -> None:
        """Errors: OSError, HintsInUse."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise HintsInUse(str(directory)) from None
        self._files = {path.name.removesuffix(_SUFFIX): _File(path) for path in sorted(directory.glob(f"*{_SUFFIX}"))}

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.fd)
        os.close(self._lock)

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files.values())

    def __len__(self) -> int:
        """How many hints wait."""
        return sum(file.hints for file in self._files.values())

    def keyspaces(self) -> list[str]:
        """Those that have hints."""
        return [name for name, file in self._files.items() if file.hints]

    async def append(self, keyspace: str, at: int, command: bytes) -> None:
        """Keep a hint; it is on disk when this returns. Errors: OSError, and then it is not kept."""
        file = self._files.get(keyspace)
        if file is None:
            file = self._files[keyspace] = _File(self._directory / f"{keyspace}{_SUFFIX}")
            await on_thread(self._flush_directory)
        data = _AT.pack(at) + command
        record = _HEAD.pack(len(data), zlib.crc32(data)) + data
        begin = file.size
        if os.pwrite(file.fd, record, begin) < len(record):
            os.ftruncate(file.fd, begin)
            raise OSError("the hint could not be written whole")
        file.size += len(record)
        file.hints += 1
        await on_thread(lambda: os.fdatasync(file.fd))

    def first(self, keyspace: str) -> Hint | None:
        """The oldest hint of a keyspace that is not done."""
        file = self._files[keyspace]
        return file.read(file.start) if file.hints else None

    def done(self, keyspace: str, hint: Hint) -> None:
        """The oldest hint is not needed any more."""
        file = self._files[keyspace]
        file.start = hint.end
        file.hints -= 1
        if not file.hints:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fd, 0)
            file.start = file.size = 0

    def _flush_directory(self) -> None:
        fd = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
