"""The inventory of a dump in a directory, `docstore-dump.json`: the files of each collection, with sizes and checksums.

MongoDB's tools pass over it. Several dumps into one directory share an inventory, in which each has its own
collections. Always true:

* a collection is noted as unfinished before its first file is written, and with its files when all of the dump is on
  disk, so an interrupted dump is never taken for a whole one;
* the inventory is replaced as a whole, and has a checksum of its own.

`size` is the number of bytes on disk, `crc` the CRC-64 (as in archives) of the content, uncompressed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from fastcrc import crc64

from docstore.tools.dumped.files import open_file
from docstore.tools.durable import replace_file
from docstore.tools.terminal import ToolFailed

NAME = "docstore-dump.json"
FORMAT = 1
_PIECE = 4 << 20


@dataclass(frozen=True, slots=True)
class DumpedFile:
    """A file of a dump: `path` from the inventory's directory, with slashes."""

    path: str
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class DumpedCollection:
    """A collection of a dump. Until it is `finished`, only its beginning is recorded."""

    database: str
    collection: str
    finished: bool
    files: tuple[DumpedFile, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.database, self.collection


class Summed:
    """A file that counts and sums up the bytes passing through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.crc = 0

    def write(self, data: bytes, /) -> None:
        self._file.write(data)
        self.crc = crc64.xz(data, self.crc)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The collections that were dumped into `directory`."""

    directory: Path
    collections: tuple[DumpedCollection, ...]


def find_inventory(path: Path) -> Inventory | None:
    """Return the inventory of the dump at a path: in the path itself or one of its two parents.

    Errors: ToolFailed for a damaged one, OSError.
    """
    path = path.absolute()
    for directory in (path, *path.parents[:2]):
        if (directory / NAME).is_file():
            return read_inventory(directory)
    return None


def read_inventory(directory: Path) -> Inventory:
    """Errors: ToolFailed, OSError."""
    path = directory / NAME
    try:
        document = json.loads(path.read_bytes())
        content = document["inventory"]
        if document["sha256"] != _digest(content):
            raise ValueError("its checksum is not that of its content")
        if content["format"] != FORMAT:
            raise ValueError(f"it is of format {content['format']}, and only {FORMAT} is known")
        return Inventory(directory, tuple(map(_collection, content["collections"])))
    except (ValueError, KeyError, TypeError) as error:
        raise ToolFailed(
            f"the inventory {path} is damaged: {error}; without that file the dump is restored unchecked"
        ) from error


def begin(directory: Path, keys: Sequence[tuple[str, str]]) -> None:
    """Note that collections are being dumped. Errors: ToolFailed, OSError."""
    _change(directory, {key: DumpedCollection(*key, finished=False) for key in keys})


def finish(directory: Path, collections: Sequence[DumpedCollection]) -> None:
    """Note the files of a dump, which are on disk. Errors: ToolFailed, OSError."""
    _change(directory, {collection.key: replace(collection, finished=True) for collection in collections})


def file_of(directory: Path, path: Path, crc: int) -> DumpedFile:
    return DumpedFile(path.relative_to(directory).as_posix(), path.stat().st_size, crc)


def fault_of(directory: Path, file: DumpedFile) -> str | None:
    """Read a file and return its fault, a sentence; None for a file that is as it was dumped."""
    path = directory / file.path
    try:
        if path.stat().st_size != file.size:
            return f"{path} is damaged: it has {path.stat().st_size} bytes and had {file.size}"
        crc = 0
        with open_file(path, "rb", compressed=path.suffix == ".gz") as content:
            while piece := content.read(_PIECE):
                crc = crc64.xz(piece, crc)
    except FileNotFoundError:
        return f"{path} is missing"
    except (OSError, EOFError, zlib.error) as error:
        return f"{path} cannot be read: {error}"
    return None if crc == file.crc else f"{path} is damaged: its checksum is not the one that was noted"


def _change(directory: Path, changed: Mapping[tuple[str, str], DumpedCollection]) -> None:
    with _locked(directory):
        existing = read_inventory(directory).collections if (directory / NAME).exists() else ()
        collections = {entry.key: entry for entry in existing} | dict(changed)
        content = {"format": FORMAT, "collections": [_document(collection) for collection in collections.values()]}
        text = json.dumps({"sha256": _digest(content), "inventory": content}, indent=1)
        replace_file(directory / NAME, text.encode() + b"\n")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Alone among the dumps into a directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _document(collection: DumpedCollection) -> dict[str, Any]:
    return {
        "db": collection.database,
        "collection": collection.collection,
        "finished": collection.finished,
        "files": [{"path": file.path, "size": file.size, "crc": f"{file.crc:016x}"} for file in collection.files],
    }


def _collection(document: Mapping[str, Any]) -> DumpedCollection:
    files = (DumpedFile(file["path"], file["size"], int(file["crc"], 16)) for file in document["files"])
    return DumpedCollection(document["db"], document["collection"], document["finished"], tuple(files))
