"""The identity of a database directory, which a restore gives anew.

RocksDB has its identity in the files that a backup copies, so a restored database would pass for the one that was
backed up. A file `RESTORED` beside them, which no checkpoint has, tells the two apart.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

_MARK = "RESTORED"


def mark_restored(directory: Path) -> None:
    """Give a directory an identity that no other has; it is on disk then but for the name. Errors: OSError."""
    with (directory / _MARK).open("w") as file:
        file.write(uuid4().hex)
        file.flush()
        os.fsync(file.fileno())


def is_restored(directory: Path) -> bool:
    """Return whether a restore has made the directory."""
    return (directory / _MARK).exists()


def identity_of(directory: Path) -> str:
    """Return the identity of the database in a directory. Errors: OSError."""
    identity = (directory / "IDENTITY").read_text().strip()
    mark = directory / _MARK
    return f"{identity} {mark.read_text().strip()}" if mark.exists() else identity
