"""Hints on disk: one file for each keyspace.

A record is the number of bytes after its head (4 bytes), their CRC-32 (4), the second in which it was stored (8) and
the command's document; numbers are little-endian. Invariants:

- a hint is on disk when `append` returns, and survives a crash of the process;
- a file ends at the first record that is incomplete or fails its checksum: opening truncates it there, since nothing
  after that was acknowledged;
- hints are forgotten in any order. A file is emptied when none of its hints is pending, and rewritten when pending
  ones are the smaller part of it. After a crash forgotten hints may return;
- one process at a time uses a directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from docstore.log import component
from docstore.net.threads import on_thread

LOG = component("WIDE")
MIN_GARBAGE_BYTES = 1024 * 1024
"""A file is written anew when so much of it, and more than half, is forgotten."""
_HEAD = struct.Struct("<II")
_AT = struct.Struct("<Q")
_SUFFIX = ".hints"


class Hint(NamedTuple):
    """`at`: the second, since 1970, in which it was kept."""

    at: int
    command: bytes


@dataclass(eq=False, slots=True)
class HintRef:
    """A pending hint: its keyspace, and the bytes of its file that hold it."""

    keyspace: str
    start: int
    size: int


class HintsInUse(Exception):
    """Another process uses the directory."""


class _File:
    """The hints of one keyspace. `size`: the offset of the next one; `pending_bytes`: the bytes of `pending`."""

    def __init__(self, keyspace: str, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = self.pending_bytes = 0
        self.pending: dict[HintRef, None] = {}
        self.lock = asyncio.Lock()
        """Held while the file is appended to or written anew."""
        for size in self._record_sizes():
            self.add(HintRef(keyspace, self.size, size))
        stored = os.fstat(self.fd).st_size
        if stored > self.size:
            LOG.warning("Hints that were not written whole are cut off", path=str(path), bytes=stored - self.size)
            os.ftruncate(self.fd, self.size)
            os.fsync(self.fd)

    def _record_sizes(self) -> Iterator[int]:
        start = 0
        while (hint := self.read(start)) is not None:
            size = _HEAD.size + _AT.size + len(hint.command)
            yield size
            start += size

    def add(self, ref: HintRef) -> None:
        """Note the hint at the end of the file."""
        self.pending[ref] = None
        self.size = ref.start + ref.size
        self.pending_bytes += ref.size

    def read(self, start: int) -> Hint | None:
        """Return the hint at that position; None if no intact one is there."""
        head = os.pread(self.fd, _HEAD.size, start)
        if len(head) < _HEAD.size:
            return None
        size, checksum = _HEAD.unpack(head)
        data = os.pread(self.fd, size, start + _HEAD.size)
        if len(data) < max(size, _AT.size) or zlib.crc32(data) != checksum:
            return None
        return Hint(_AT.unpack_from(data)[0], data[_AT.size :])

    @property
    def is_mostly_garbage(self) -> bool:
        garbage = self.size - self.pending_bytes
        return garbage >= MIN_GARBAGE_BYTES and garbage > self.pending_bytes

    async def compact(self) -> None:
        """Rewrite the file without the forgotten hints. On OSError the old file stays."""
        refs = list(self.pending)
        fresh = self.path.with_suffix(".new")
        fd, starts = await on_thread(lambda: self._copy(refs, fresh))
        os.replace(fresh, self.path)
        os.close(self.fd)
        self.fd, self.size = fd, 0
        for ref, start in zip(refs, starts, strict=True):
            ref.start = start
            self.size = start + ref.size

    def _copy(self, refs: list[HintRef], path: Path) -> tuple[int, list[int]]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        starts: list[int] = []
        size = 0
        for ref in refs:
            if os.pwrite(fd, os.pread(self.fd, ref.size, ref.start), size) < ref.size:
                os.close(fd)
                raise OSError("the hints could not be written whole")
            starts.append(size)
            size += ref.size
        os.fdatasync(fd)
        return fd, starts


class HintLog:
    """The hints of a directory. `size`: the bytes of the pending ones."""

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
        names = (path.name.removesuffix(_SUFFIX) for path in sorted(directory.glob(f"*{_SUFFIX}")))
        self._files = {name: self._open(name) for name in names}

    def _open(self, keyspace: str) -> _File:
        return _File(keyspace, self._directory / f"{keyspace}{_SUFFIX}")

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.fd)
        os.close(self._lock)

    @property
    def size(self) -> int:
        return sum(file.pending_bytes for file in self._files.values())

    def __len__(self) -> int:
        """The number of pending hints."""
        return sum(len(file.pending) for file in self._files.values())

    def pending(self) -> list[HintRef]:
        """Return the pending hints, in order of arrival within a keyspace."""
        return [ref for file in self._files.values() for ref in file.pending]

    async def append(self, keyspace: str, at: int, command: bytes) -> None:
        """Store a hint; it is on disk on return. Errors: OSError, after which it is not stored."""
        file = self._files.get(keyspace)
        if file is None:
            file = self._files[keyspace] = self._open(keyspace)
            await on_thread(self._flush_directory)
        data = _AT.pack(at) + command
        record = _HEAD.pack(len(data), zlib.crc32(data)) + data
        async with file.lock:
            fd = file.fd
            try:
                if os.pwrite(fd, record, file.size) < len(record):
                    raise OSError("the hint could not be written whole")
                await on_thread(lambda: os.fdatasync(fd))
            except OSError:
                os.ftruncate(fd, file.size)
                raise
            file.add(HintRef(keyspace, file.size, len(record)))

    def read(self, ref: HintRef) -> Hint | None:
        """Return the hint; None if it was forgotten."""
        file = self._files[ref.keyspace]
        return file.read(ref.start) if ref in file.pending else None

    async def forget(self, ref: HintRef) -> None:
        """Forget a hint that is not needed any more."""
        file = self._files[ref.keyspace]
        if ref not in file.pending:
            return
        del file.pending[ref]
        file.pending_bytes -= ref.size
        if file.lock.locked() or not (file.is_mostly_garbage or not file.pending):
            return
        async with file.lock:
            with contextlib.suppress(OSError):
                if not file.pending:
                    os.ftruncate(file.fd, 0)
                    file.size = 0
                elif file.is_mostly_garbage:
                    await file.compact()
                    await on_thread(self._flush_directory)

    def _flush_directory(self) -> None:
        fd = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
