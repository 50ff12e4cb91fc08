"""The files of a dump: `DATABASE/COLLECTION.bson`, concatenated documents, and `COLLECTION.metadata.json`.

The metadata is extended JSON: `indexes`, `collectionName`, `type` (collection, view or timeseries) and `options`, as
for `create`. A view has no file of documents; a time series' file is named like its buckets. Compressed files end in
`.gz`. In file names all but letters, digits and `-._~` is escaped as in URLs, which all readers of dumps decode alike
(unlike a plain plus or space). A name that would be longer than 238 bytes is cut, and ends in `%24` and the SHA-1 of
the collection's name: the metadata has the whole name.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote, unquote

from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument

from docstore.tools.connection import RAW
from docstore.tools.limits import MAX_CUT_NAME_BYTES, MAX_FILE_NAME_BYTES
from docstore.tools.text.extended_json import document_of

OPLOG = "oplog"
"""The name of the file that holds the changes of the time of the dump."""

SERIES = "timeseries"
"""The type of a time series."""

_BUCKETS = "system.buckets."
_METADATA = ".metadata.json"
_DOCUMENTS = ".bson"
_LENGTH = struct.Struct("<i")
_SHORTEST = 5
_PIECE = 4 << 20
_COMPRESSION = 6


def documents_name(collection: str, metadata: Mapping[str, Any]) -> str:
    """Return the name of a collection's documents in a dump: a time series is dumped as its buckets."""
    return _BUCKETS + collection if metadata.get("type") == SERIES else collection


def is_oplog(database: str, collection: str) -> bool:
    """True if archives of other tools use this name for their log."""
    return not database and collection == OPLOG


@dataclass(frozen=True, slots=True)
class CollectionFiles:
    """A collection's files in a directory; one of the two may be missing."""

    database: str
    collection: str
    documents: Path | None
    metadata: Path | None


def open_file(path: Path, mode: str, *, compressed: bool) -> IO[bytes]:
    """Open a file of a dump, to read ("rb") or to write ("wb")."""
    if compressed:
        return cast(IO[bytes], gzip.open(path, mode, _COMPRESSION))
    return cast(IO[bytes], path.open(mode))


def documents_file(root: Path, database: str, collection: str, *, compressed: bool) -> Path:
    """Return the path of a collection's documents."""
    return _file(root, database, collection, _DOCUMENTS, compressed)


def metadata_file(root: Path, database: str, collection: str, *, compressed: bool) -> Path:
    """Return the path of a collection's metadata."""
    return _file(root, database, collection, _METADATA, compressed)


def collections_below(root: Path, *, compressed: bool) -> Iterator[CollectionFiles]:
    """The collections of all databases in a directory. Errors: ValueError for metadata that cannot be read."""
    for directory in sorted(path for path in root.iterdir() if path.is_dir()):
        yield from collections_in(directory, directory.name, compressed=compressed)


def collections_in(directory: Path, database: str, *, compressed: bool) -> Iterator[CollectionFiles]:
    """The collections in the directory of a database. Errors: ValueError for metadata that cannot be read."""
    paths_by_name: dict[str, dict[str, Path]] = {}
    for path in sorted(directory.iterdir()):
        for ending in (_METADATA, _DOCUMENTS):
            if path.name.endswith(ending + _suffix(compressed)):
                paths_by_name.setdefault(path.name.removesuffix(ending + _suffix(compressed)), {})[ending] = path
    for name in [name for name in paths_by_name if name.startswith(_BUCKETS) and _METADATA not in paths_by_name[name]]:
        series = paths_by_name.get(name.removeprefix(_BUCKETS), {})
        if _METADATA in series and _DOCUMENTS not in series:
            series.update(paths_by_name.pop(name))
    for name, paths in paths_by_name.items():
        metadata = paths.get(_METADATA)
        collection = unquote(name)
        if metadata is not None:
            collection = read_metadata(metadata, compressed=compressed).get("collectionName", collection)
        yield CollectionFiles(database, collection, paths.get(_DOCUMENTS), metadata)


def read_metadata(path: Path, *, compressed: bool) -> dict[str, Any]:
    """Read the metadata. Errors: ValueError unless it is a document of extended JSON."""
    with open_file(path, "rb", compressed=compressed) as file:
        try:
            return document_of(file.read().decode())
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"the metadata in {path} cannot be read: {error}") from error


def documents_in(file: IO[bytes]) -> Iterator[RawBSONDocument]:
    """The documents of an open file. Errors: bson.errors.InvalidBSON."""
    data, offset = b"", 0
    while piece := file.read(_PIECE):
        data, offset = data[offset:] + piece, 0
        while len(data) - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, offset)
            if length < _SHORTEST:
                raise InvalidBSON(f"{length} is no length of a document")
            if offset + length > len(data):
                break
            yield RawBSONDocument(data[offset : offset + length], RAW)
            offset += length
    if offset < len(data):
        raise InvalidBSON("the file ends in the middle of a document")


def _file(root: Path, database: str, collection: str, ending: str, compressed: bool) -> Path:
    # A dollar is the first character of names of users and roles, and of none else.
    name = quote(collection, safe="$" if collection.startswith("$") else "")
    if len(name) > MAX_FILE_NAME_BYTES:
        cut = name[:MAX_CUT_NAME_BYTES]
        escape = cut.rfind("%", MAX_CUT_NAME_BYTES - 2)
        digest = hashlib.sha1(collection.encode(), usedforsecurity=False).digest()
        name = cut[: escape if escape >= 0 else None] + "%24" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return root / database / (name + ending + _suffix(compressed))


def _suffix(compressed: bool) -> str:
    return ".gz" if compressed else ""
