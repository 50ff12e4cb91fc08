"""The key-value engines: one contract, `rocksdb` on disk and `inMemory`.

`open_engine` is how an engine is made. A database directory carries a marker and a format version: one that is damaged,
or of a format that this program does not know, is refused rather than guessed at.
"""

from __future__ import annotations

from docstore.storage.engine import (
    Batch,
    DatabaseLocked,
    DataCorrupted,
    DiskFull,
    Engine,
    Family,
    Load,
    Reader,
    Snapshot,
    StorageError,
    Urgency,
)
from docstore.storage.inspection import DirectoryDamaged
from docstore.storage.memory import MemoryEngine
from docstore.storage.opening import FORMAT_VERSION, open_directory

__all__ = [
    "FORMAT_VERSION",
    "Batch",
    "DataCorrupted",
    "DatabaseLocked",
    "DirectoryDamaged",
    "DiskFull",
    "Engine",
    "Family",
    "Load",
    "Reader",
    "Snapshot",
    "StorageError",
    "Urgency",
    "open_engine",
]


def open_engine(kind: str, path: str, *, cache_bytes: int = 64 << 20) -> Engine:
    """The engine `kind` ("rocksdb" or "inMemory") over the directory `path` (unused in memory).

    Raises DatabaseLocked when the directory is open elsewhere, DirectoryDamaged when something of it is missing,
    StorageError for an unknown kind, for a directory that cannot be opened, and for one written in a format that this
    program does not know.
    """
    if kind == "inMemory":
        return MemoryEngine()
    if kind != "rocksdb":
        raise StorageError(f"there is no storage engine named {kind!r}: use rocksdb or inMemory")
    return open_directory(path, cache_bytes=cache_bytes)
