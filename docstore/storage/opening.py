"""Opening of data directories: a new one is created, an existing one is opened as it is or rejected.

A rejected open changes no file, except RocksDB's `LOG` if RocksDB itself fails, and an empty lock file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from docstore.key_layout import DIRECTORY_IDENTITY_KEY, FORMAT_KEY
from docstore.log import component
from docstore.storage.directory import ADOPTING, COMPLETE, MAKING, SYNCED, Marker, engine_files, new_identity
from docstore.storage.engine import Batch, Family, StorageError
from docstore.storage.inspection import Inspection, Kind, inspect, read_manifest
from docstore.storage.lock import claim, lock_directory
from docstore.storage.repairs import recorded_losses, refuse_unfinished
from docstore.storage.rocks import RocksEngine

LOG = component("STORAGE")

FORMAT_VERSION = 4
"""Increased when older programs can no longer read what newer ones write."""

_READABLE_VERSIONS = (3, FORMAT_VERSION)
"""Readable format versions; opening upgrades a directory to the newest."""


class UnknownFormat(StorageError):
    """The directory has a format that this program does not know."""


_FORMAT = struct.Struct(">I")
_CACHE_BYTES = 64 << 20


def open_directory(path: str, *, cache_bytes: int = _CACHE_BYTES) -> RocksEngine:
    """Return the engine over a directory, creating the database if there is none.

    Errors: DatabaseLocked; DirectoryDamaged; StorageError for an unfinished repair, a failure of RocksDB, and an
    unknown format.
    """
    directory = Path(path)
    os.makedirs(directory, exist_ok=True)
    refuse_foreign(directory)
    lock = lock_directory(path)
    try:
        refuse_unfinished(directory)
        for loss in recorded_losses(directory):
            LOG.warning("A repair could not save everything, and its record stands", path=path, loss=loss)
        engine = open_locked(directory, cache_bytes=cache_bytes, on_sound=lambda: claim(lock))
    except BaseException:
        os.close(lock)
        raise
    engine.lock = lock
    return engine


def refuse_foreign(directory: Path) -> None:
    """Reject the directory of another server. Errors: StorageError."""
    if (directory / "WiredTiger").exists():
        raise StorageError(
            f"the directory {directory} holds the data of another server (WiredTiger): give another --dbpath"
        )


def open_locked(
    directory: Path, *, cache_bytes: int = _CACHE_BYTES, on_sound: Callable[[], None] = lambda: None
) -> RocksEngine:
    """Open a directory that this process has locked, even during its repair; otherwise like `open_directory`.

    `on_sound` is called after the checks and before anything is changed.
    """
    state = inspect(directory)
    state.require_sound(directory)
    if state.stored_format is not None:
        refuse_unknown_format(directory, state.stored_format)
    on_sound()
    if state.kind in (Kind.NEW, Kind.UNFINISHED):
        return make_directory(directory, cache_bytes=cache_bytes)
    with _torn_ends_dropped(directory, state):
        if state.kind is Kind.EARLIER:
            return _adopt(directory, state.marker, cache_bytes)
        engine = RocksEngine(str(directory), cache_bytes=cache_bytes)
    try:
        check_format(engine)
        assert state.marker is not None
        identity = engine.get(Family.META, DIRECTORY_IDENTITY_KEY)
        if identity != state.marker.identity.encode():
            raise StorageError(
                f"the files in {directory} belong to different directories: the marker names "
                f"{state.marker.identity}, and the database {identity and identity.decode(errors='replace')}"
            )
    except BaseException:
        engine.close()
        raise
    LOG.info("Storage engine opened", engine="rocksdb", path=str(directory), format=FORMAT_VERSION, new=False)
    return engine


@contextmanager
def _torn_ends_dropped(directory: Path, state: Inspection) -> Iterator[None]:
    """Drop the torn ends of files while the database is opened; put them back if that fails, since a repair can read
    what is whole in them.
    """
    sizes = state.readable | {f"{number:06}.log": 0 for number in state.beyond_tear}
    ends: dict[str, bytes] = {}
    for name, size in sizes.items():
        with (directory / name).open("r+b") as file:
            file.seek(size)
            ends[name] = file.read()
            file.truncate(size)
    try:
        yield
    except BaseException:
        for name, size in sizes.items():
            # RocksDB removes a log only when a sorted file holds what was whole in it.
            if (directory / name).exists():
                with (directory / name).open("r+b") as file:
                    file.seek(size)
                    file.write(ends[name])
        raise
    for torn in state.torn:
        LOG.warning("A torn end was dropped", path=str(directory), dropped=torn)


def make_directory(directory: Path, *, identity: str | None = None, cache_bytes: int = _CACHE_BYTES) -> RocksEngine:
    """Create a database in a directory that has none, or an unfinished one."""
    identity = identity or new_identity()
    Marker(identity, MAKING).write(directory)
    for file in [*engine_files(directory), directory / SYNCED]:
        file.unlink(missing_ok=True)
    engine = RocksEngine(str(directory), cache_bytes=cache_bytes, create=True)
    _complete(engine, directory, identity)
    LOG.info("Storage engine opened", engine="rocksdb", path=str(directory), format=FORMAT_VERSION, new=True)
    return engine


def _adopt(directory: Path, interrupted: Marker | None, cache_bytes: int) -> RocksEngine:
    """Open a directory of an earlier version and give it a marker, that of an `interrupted` attempt if there is one."""
    identity = new_identity() if interrupted is None else interrupted.identity
    Marker(identity, ADOPTING).write(directory)
    engine = RocksEngine(str(directory), cache_bytes=cache_bytes, create=True)
    try:
        check_format(engine)
        _write_identity(engine, identity)
    finally:
        engine.close()
    # Reopening writes the identity, like the format, into a sorted file. Otherwise the directory, if it lost its
    # marker, mark and logs, would again look like one of an earlier version.
    engine = RocksEngine(str(directory), cache_bytes=cache_bytes)
    _complete(engine, directory, identity)
    LOG.info("Storage engine opened", engine="rocksdb", path=str(directory), format=FORMAT_VERSION, new=False)
    return engine


def _write_identity(engine: RocksEngine, identity: str) -> None:
    batch = Batch()
    batch.put(Family.META, FORMAT_KEY, _FORMAT.pack(FORMAT_VERSION))
    batch.put(Family.META, DIRECTORY_IDENTITY_KEY, identity.encode())
    engine.write(batch)
    engine.flush()


def _complete(engine: RocksEngine, directory: Path, identity: str) -> None:
    try:
        _write_identity(engine, identity)
        Marker(identity, COMPLETE, _family_numbers(directory)).write(directory)
    except BaseException:
        engine.close()
        raise


def _family_numbers(directory: Path) -> dict[str, int]:
    """Return RocksDB's numbers of the families, by name. Errors: StorageError."""
    version = read_manifest(directory / (directory / "CURRENT").read_text().strip(), None)
    if isinstance(version, str):
        raise StorageError(f"a new database cannot be read: {version}")
    return {family.name: number for number, family in version.families.items()}


def check_format(engine: RocksEngine) -> None:
    """Upgrade the stored format to the newest. Errors: UnknownFormat."""
    stored = engine.get(Family.META, FORMAT_KEY)
    refuse_unknown_format(engine.path, stored or b"")
    if stored != _FORMAT.pack(FORMAT_VERSION):
        write_format(engine)


def write_format(engine: RocksEngine) -> None:
    """Store the newest format version."""
    batch = Batch()
    batch.put(Family.META, FORMAT_KEY, _FORMAT.pack(FORMAT_VERSION))
    engine.write(batch)


def refuse_unknown_format(path: str | Path, stored: bytes) -> None:
    """Reject an unknown stored format. Errors: UnknownFormat."""
    if stored not in tuple(map(_FORMAT.pack, _READABLE_VERSIONS)):
        version = _FORMAT.unpack(stored)[0] if len(stored) == _FORMAT.size else "unreadable"
        raise UnknownFormat(
            f"the database in {path} has format version {version}; this program reads and writes version "
            f"{FORMAT_VERSION}"
        )
