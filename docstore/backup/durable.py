"""Files that are on disk when they are said to be."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from docstore.backup.failures import Damaged

_PIECE = 1 << 20


def write_durably(path: Path, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Make a file that must not exist; its (size, SHA-256). Errors: OSError."""
    size, digest = 0, hashlib.sha256()
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return size, digest.hexdigest()


def checked_pieces(path: Path, size: int, sha256: str) -> Iterator[bytes]:
    """The content of a file, which was good only if nothing is raised by the end. Errors: Damaged."""
    digest, read = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                read += len(piece)
                yield piece
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
    if read != size:
        raise Damaged(f"{path} is damaged: it has {read} bytes and had {size}")
    if digest.hexdigest() != sha256:
        raise Damaged(f"{path} is damaged: its checksum is not the one that was noted")


def check_file(path: Path, size: int, sha256: str) -> None:
    """Errors: Damaged."""
    for _ in checked_pieces(path, size, sha256):
        pass
