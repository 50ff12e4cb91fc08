"""Lock of a data directory: `mongod.lock` is locked while a process has the directory open, and holds its process id.

The lock ends with the process in any case; the file's content is valid only while it is locked.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from docstore.storage.engine import DatabaseLocked, StorageError

_FILE = "mongod.lock"


def lock_directory(path: str) -> int:
    """Lock the directory and return the descriptor that holds the lock. Errors: DatabaseLocked, StorageError.

    The file's content stays: `claim` writes it once the directory is known to be sound.
    """
    file = Path(path) / _FILE
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"this process cannot write there: {error.strerror} ({file})") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        owner = file.read_text(errors="replace").strip() or "unknown"
        raise DatabaseLocked(
            f"the database directory {path} is in use by another process (pid {owner}); "
            "stop that one or give another --dbpath"
        ) from None
    return descriptor


def claim(descriptor: int) -> None:
    """Write this process's id into the lock file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def owner_of(path: Path) -> int | None:
    """Return the id of the process that has the directory open, or None."""
    try:
        descriptor = os.open(path / _FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
    return None
