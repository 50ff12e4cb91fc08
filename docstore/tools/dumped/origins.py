"""The collections in the directory of a dump, for a restore."""

from __future__ import annotations

import gzip
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument

from docstore.tools.dumped.archive import Described
from docstore.tools.dumped.files import (
    CollectionFiles,
    collections_below,
    collections_in,
    documents_in,
    documents_name,
    open_file,
    read_metadata,
)
from docstore.tools.terminal import ToolFailed

STDIN = Path("-")
"""Standard input instead of a file."""
_LENGTH = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Origin:
    """A collection of a dump: its namespace, its metadata, and the file of its documents."""

    database: str
    collection: str
    metadata: dict[str, Any]
    documents: Path | None

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    @property
    def documents_namespace(self) -> str:
        """Return the namespace of its documents."""
        return f"{self.database}.{documents_name(self.collection, self.metadata)}"

    @property
    def size(self) -> int | None:
        """Return the bytes of its file, if they tell the number of documents."""
        return None if self.documents is None or self.documents == STDIN else self.documents.stat().st_size


def origins_of(root: Path, database: str | None, collection: str | None, *, compressed: bool) -> list[Origin]:
    """Return the collections below a directory; with a database those in its directory; with a collection that of a
    file. Errors: ToolFailed, ValueError for metadata that cannot be read.
    """
    if root == STDIN:
        if database is None or collection is None:
            raise ToolFailed("the standard input has no name: --db and --collection say what it holds")
        return [Origin(database, collection, {}, STDIN)]
    if collection is not None:
        return [_origin_of(_files_of(root, str(database), collection, compressed=compressed), compressed=compressed)]
    if not root.is_dir():
        raise ToolFailed(f"{root} is a file: name what it holds by --db and --collection")
    if database is not None:
        directory = root / database if (root / database).is_dir() else root
        collections = collections_in(directory, database, compressed=compressed)
    else:
        collections = collections_below(root, compressed=compressed)
    return [_origin_of(files, compressed=compressed) for files in collections]


def origin_in_archive(described: Described) -> Origin:
    return Origin(described.database, described.collection, described.metadata, None)


@contextmanager
def documents_from(path: Path, skipped: int, *, compressed: bool) -> Iterator[Iterator[RawBSONDocument]]:
    """Yield the documents of a file after the first `skipped` ones."""
    with _opened(path, compressed=compressed) as file:
        for _ in range(skipped):
            head = file.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                raise ToolFailed(f"{path} has fewer documents than were restored of it")
            remaining_bytes = _LENGTH.unpack(head)[0] - _LENGTH.size
            if path == STDIN:
                file.read(remaining_bytes)
            else:
                file.seek(remaining_bytes, 1)
        yield _named(documents_in(file), path)


def _named(documents: Iterator[RawBSONDocument], path: Path) -> Iterator[RawBSONDocument]:
    try:
        yield from documents
    except (InvalidBSON, EOFError, zlib.error) as error:
        raise ToolFailed(f"{path} is damaged: {error}") from error


def _opened(path: Path, *, compressed: bool) -> AbstractContextManager[IO[bytes]]:
    if path != STDIN:
        return open_file(path, "rb", compressed=compressed)
    return nullcontext(uncompressed(sys.stdin.buffer) if compressed else sys.stdin.buffer)


def uncompressed(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))


def _files_of(root: Path, database: str, collection: str, *, compressed: bool) -> CollectionFiles:
    if not root.is_dir():
        suffix = ".bson.gz" if compressed else ".bson"
        if not root.name.endswith(suffix):
            raise ToolFailed(f"{root} is no file of documents: its name does not end in {suffix}")
        metadata = root.with_name(root.name.removesuffix(suffix) + suffix.replace(".bson", ".metadata.json"))
        return CollectionFiles(database, collection, root, metadata if metadata.exists() else None)
    directory = root / database if (root / database).is_dir() else root
    for files in collections_in(directory, database, compressed=compressed):
        if files.collection == collection:
            return files
    raise ToolFailed(f"there is no dump of {database}.{collection} in {directory}")


def _origin_of(files: CollectionFiles, *, compressed: bool) -> Origin:
    metadata = {} if files.metadata is None else read_metadata(files.metadata, compressed=compressed)
    return Origin(files.database, files.collection, metadata, files.documents)
