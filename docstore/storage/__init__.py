"""Key-value engines under one contract: `rocksdb` on disk and `inMemory`.

Use `open_engine`. A database directory has a marker and a format version. A damaged directory, or one of an unknown
format, is rejected.
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
    """Return the engine `kind` ("rocksdb" or "inMemory") over the directory `path` (unused in memory).

    Errors: DatabaseLocked if the directory is open elsewhere; DirectoryDamaged if part of it is missing; StorageError
    for an unknown kind, a directory that cannot be opened, and an unknown format.
    """
    if kind == "inMemory":
        return MemoryEngine()
    if kind != "rocksdb":
        raise StorageError(f"there is no storage engine named {kind!r}: use rocksdb or inMemory")
    return open_directory(path, cache_bytes=cache_bytes)
