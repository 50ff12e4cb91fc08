"""The key-value engines: one contract, `rocksdb` on disk and `inMemory`.

`open_engine` is how an engine is made; the database directory carries a format version, and one that this program
does not know is refused rather than guessed at.
"""

from __future__ import annotations

import struct
from pathlib import Path

from docstore.key_layout import FORMAT_KEY
from docstore.log import component
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
from docstore.storage.memory import MemoryEngine
from docstore.storage.rocks import RocksEngine
from docstore.storage.salvage import unfinished

__all__ = [
    "FORMAT_VERSION",
    "Batch",
    "DataCorrupted",
    "DatabaseLocked",
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

FORMAT_VERSION = 4
"""Raised when older programs could no longer read what newer ones write."""

_READ_TOO = (3,)
"""Earlier versions in which nothing stands that this program does not read: what it writes makes them this one."""

LOG = component("STORAGE")

_FORMAT = struct.Struct(">I")


def open_engine(kind: str, path: str, *, cache_bytes: int = 64 << 20) -> Engine:
    """The engine `kind` ("rocksdb" or "inMemory") over the directory `path` (unused in memory).

    Raises DatabaseLocked when the directory is open elsewhere, StorageError for an unknown kind, for a directory
    that cannot be opened, and for one written in a format that this program does not know.
    """
    if kind == "inMemory":
        return MemoryEngine()
    if kind != "rocksdb":
        raise StorageError(f"there is no storage engine named {kind!r}: use rocksdb or inMemory")
    if unfinished(Path(path)):
        raise StorageError(f"a repair of {path} was not finished: start once more with --repair")
    engine = RocksEngine(path, cache_bytes=cache_bytes)
    stored = engine.get(Family.META, FORMAT_KEY)
    if stored is None or stored in map(_FORMAT.pack, _READ_TOO):
        batch = Batch()
        batch.put(Family.META, FORMAT_KEY, _FORMAT.pack(FORMAT_VERSION))
        engine.write(batch)
    elif stored != _FORMAT.pack(FORMAT_VERSION):
        engine.close()
        found = _FORMAT.unpack(stored)[0] if len(stored) == _FORMAT.size else "unreadable"
        raise StorageError(
            f"the database in {path} has format version {found}; this program reads and writes version {FORMAT_VERSION}"
        )
    LOG.info("Storage engine opened", engine=kind, path=path, format=FORMAT_VERSION, new=stored is None)
    return engine
