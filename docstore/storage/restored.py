"""The identity of a database directory, renewed by a restore.

RocksDB's identity is in the files that a backup copies, so a restored database would have the identity of the original.
The additional file `RESTORED`, which no checkpoint has, distinguishes the two.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

_MARK = "RESTORED"


def mark_restored(directory: Path) -> None:
    """Give a directory a unique identity; synced except for the file's name. Errors: OSError."""
    with (directory / _MARK).open("w") as file:
        file.write(uuid4().hex)
        file.flush()
        os.fsync(file.fileno())


def is_restored(directory: Path) -> bool:
    """Return True if the directory was created by a restore."""
    return (directory / _MARK).exists()


def identity_of(directory: Path) -> str:
    """Return the identity of the database in a directory. Errors: OSError."""
    identity = (directory / "IDENTITY").read_text().strip()
    mark = directory / _MARK
    return f"{identity} {mark.read_text().strip()}" if mark.exists() else identity
