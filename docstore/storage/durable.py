"""Small files of a data directory, written atomically: a checksum and JSON in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fastcrc.crc32 import iscsi as crc32c

from docstore.storage.engine import StorageError


class Unreadable(StorageError):
    """A file of this project is damaged."""


def seal(content: dict[str, Any]) -> bytes:
    """Return a line with `content` and its checksum."""
    return seal_text(json.dumps(content, separators=(",", ":")).encode())


def seal_text(text: bytes) -> bytes:
    """Return a line with the JSON `text` and its checksum."""
    return b"%08x %s\n" % (crc32c(text), text)


def unseal(line: bytes) -> dict[str, Any] | None:
    """Return the content of a sealed line, or None if the checksum does not match."""
    checksum, _, text = line.strip(b" \n\0").partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        return None
    content: dict[str, Any] = json.loads(text)
    return content


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Replace the file atomically and sync it. Errors: OSError."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(seal(content))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def read_sealed(path: Path) -> dict[str, Any] | None:
    """Return the content of the file, or None if it does not exist. Errors: Unreadable."""
    try:
        line = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"the file {path.name} cannot be read: {error.strerror}") from None
    content = unseal(line)
    if content is None:
        raise Unreadable(f"the file {path.name} is damaged: its checksum does not fit")
    return content


def sync_directory(path: Path) -> None:
    """Sync a directory, so that its file names survive power loss. Errors: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
