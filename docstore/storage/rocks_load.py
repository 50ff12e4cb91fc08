"""Bulk load by a sorted file that RocksDB ingests as it is, bypassing log and memtable.

The file is written below `loading`, in slices, and synced before RocksDB ingests it; then it is one of its own files.
Files of a killed process are removed when the directory is opened again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from rocksdict import Options, SstFileWriter

from docstore.storage.disk_space import DiskSpace
from docstore.storage.engine import Batch, DiskFull, Family, StorageError
from docstore.storage.load import Later, entries_between

NO_SPACE = "No space left on device"
"""RocksDB's message for a full disk."""

_FILE_BYTES = 32 << 20
"""Bytes of keys per file; they take twice as much while they are gathered.

The files of one index overlap, so RocksDB repeatedly merges a few new ones with all existing ones: the fewer files, the
less often.
"""

_PUT_AT_ONCE = 2_048
"""Entries written to a file between two looks at the clock."""


class LoadedFiles:
    """The files of one engine that are being written, and the loads to which each write is reported."""

    def __init__(
        self, path: str, options: Options, room: DiskSpace, bring_in: Callable[[Family, str, Batch], None]
    ) -> None:
        """`bring_in(family, file, later)` ingests a file and then writes the batch, if it is not empty."""
        self.loads: list[FileLoad] = []
        self.directory = Path(path) / "loading"
        self.options = options
        self.room = room
        self.bring_in = bring_in
        self._files = 0
        shutil.rmtree(self.directory, ignore_errors=True)

    def note(self, batch: Batch) -> None:
        """Report a batch that was written to the loads."""
        for load in self.loads:
            load.later.note(batch)

    def begin(self, family: Family, start: bytes, end: bytes) -> FileLoad:
        load = FileLoad(self, family, start, end)
        self.loads.append(load)
        return load

    def new_file(self) -> str:
        """Return the path for a new file."""
        self._files += 1
        self.directory.mkdir(exist_ok=True)
        return str(self.directory / f"{self._files}.sst")


class FileLoad:
    """Implements `Load` by a sorted file."""

    def __init__(self, files: LoadedFiles, family: Family, start: bytes, end: bytes) -> None:
        self.later = Later(family, start, end)
        self._files = files
        self._family = family
        self.entries = entries_between(start, end)
        self._writer: SstFileWriter | None = None
        self._file = ""

    @property
    def full(self) -> bool:
        return self.entries.size >= _FILE_BYTES

    def step(self, deadline: float) -> bool:
        entries = self.entries
        try:
            while entries.sort_run(1):
                if monotonic() >= deadline:
                    return False
            while entries.count and entries.put_next(self._writer or self._begin(), _PUT_AT_ONCE):
                if monotonic() >= deadline:
                    return False
            if self._writer is not None:
                self._writer.finish()
                # Later writes no longer concern this load.
                self._end()
                self._files.bring_in(self._family, self._file, self.later.batch)
        except StorageError:
            self.abandon()
            raise
        except Exception as error:  # rocksdict raises nothing narrower
            self.abandon()
            if NO_SPACE in str(error):
                raise DiskFull(f"the disk has no room for a sorted file: {error}") from error
            raise StorageError(f"a sorted file could not be written: {error}") from error
        self._end()
        return True

    def _begin(self) -> SstFileWriter:
        self._files.room.check_room()
        self._file = self._files.new_file()
        self._writer = SstFileWriter(self._files.options)
        self._writer.open(self._file)
        return self._writer

    def _end(self) -> None:
        self._writer = None
        if self in self._files.loads:
            self._files.loads.remove(self)

    def abandon(self) -> None:
        self._end()
        if self._file:
            Path(self._file).unlink(missing_ok=True)
