"""The files of a dump: `DATABASE/COLLECTION.bson`, documents behind each other, and `COLLECTION.metadata.json`.

The metadata is extended JSON: `indexes`, `collectionName`, `type` (collection or view) and `options`, those of
`create`. A view has no file of documents. Compressed, each file ends in `.gz`. Characters that no file name may hold
are written as in URLs.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote, unquote

from bson import decode, decode_file_iter
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import CANONICAL_JSON_OPTIONS, JSONMode, JSONOptions, dumps, loads
from bson.raw_bson import RawBSONDocument

from docstore.tools.connection import RAW

EXACT: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
"""Decodes documents so that nothing of a value is lost."""

_JSON: JSONOptions = JSONOptions(json_mode=JSONMode.CANONICAL, datetime_conversion=DatetimeConversion.DATETIME_MS)
_METADATA = ".metadata.json"
_DOCUMENTS = ".bson"
_SAFE = " !#$&'()+,;=@[]"


def open_file(path: Path, mode: str, *, compressed: bool) -> IO[bytes]:
    """A file of a dump, to read ("rb") or to write ("wb")."""
    return cast(IO[bytes], gzip.open(path, mode)) if compressed else cast(IO[bytes], path.open(mode))


def documents_file(root: Path, database: str, collection: str, *, compressed: bool) -> Path:
    """Where the documents of a collection are."""
    return _file(root, database, collection, _DOCUMENTS, compressed)


def metadata_file(root: Path, database: str, collection: str, *, compressed: bool) -> Path:
    """Where a collection's metadata is."""
    return _file(root, database, collection, _METADATA, compressed)


def collections_of(root: Path, *, compressed: bool) -> Iterator[tuple[str, str]]:
    """(database, collection) of all metadata below a directory."""
    ending = _METADATA + _suffix(compressed)
    for path in sorted(root.glob("*/*" + ending)):
        yield path.parent.name, unquote(path.name.removesuffix(ending))


def write_metadata(path: Path, metadata: dict[str, Any], *, compressed: bool) -> None:
    with open_file(path, "wb", compressed=compressed) as file:
        file.write(dumps(metadata, json_options=_JSON).encode())


def read_metadata(path: Path, *, compressed: bool) -> dict[str, Any]:
    """Errors: ValueError for what is no document of extended JSON."""
    with open_file(path, "rb", compressed=compressed) as file:
        found = loads(file.read(), json_options=CANONICAL_JSON_OPTIONS)
    if not isinstance(found, dict):
        raise ValueError("the metadata is no document")
    return found


def documents_in(file: IO[bytes]) -> Iterator[RawBSONDocument]:
    """The documents of an open file. Errors: bson.errors.InvalidBSON."""
    return decode_file_iter(file, RAW)


def as_json(document: RawBSONDocument, indent: int | None = None) -> str:
    """A document as extended JSON, canonical."""
    return dumps(decode(document.raw, EXACT), json_options=_JSON, indent=indent)


def _file(root: Path, database: str, collection: str, ending: str, compressed: bool) -> Path:
    return root / database / (quote(collection, safe=_SAFE) + ending + _suffix(compressed))


def _suffix(compressed: bool) -> str:
    return ".gz" if compressed else ""
