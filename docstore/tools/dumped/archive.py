"""The archive of a dump: all of it in one stream, following the published description of the format.

    archive            = magic number, header, metadata of each collection, terminator, (segment | end of collection)*
    segment            = {db, collection, EOF: false, CRC: 0}, documents, terminator
    end of collection  = {db, collection, EOF: true, CRC}, terminator

An oplog is a collection "oplog" of a database without a name, and has no metadata. A view has an end and no segment.
The metadata of a collection has a checksum too, `CRC`, which readers that do not know it skip. Segments of several
collections may alternate. `CRC` of an end is the CRC-64 of ECMA-182 of all documents of a collection, in the variant
of Go and xz. The reader raises an error if it differs from that of the documents read, or if the stream ends before
the end of each collection.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from bson import decode, encode
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from fastcrc import crc64

from docstore.tools.connection import RAW
from docstore.tools.dumped.files import documents_name, is_oplog
from docstore.tools.limits import MAX_ARCHIVED_DOCUMENT_BYTES
from docstore.tools.text.extended_json import EXACT, as_json, document_of

VERSION = "0.1"
_MAGIC = b"\x6d\xe2\x99\x81"
_TERMINATOR = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct("<i")
_PIECE = 4 << 20


class ArchiveError(Exception):
    """The stream is no archive, or incomplete."""


@dataclass(frozen=True, slots=True)
class Described:
    """A collection of an archive: its namespace, and its metadata as a document."""

    database: str
    collection: str
    metadata: dict[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Some documents of a collection; none at its end, where `is_last` is set."""

    database: str
    collection: str
    documents: Sequence[RawBSONDocument]
    is_last: bool


class ArchiveWriter:
    """Writes an archive. Any thread may write documents; the metadata of all collections comes first."""

    def __init__(
        self, file: IO[bytes], described: Sequence[Described], *, server: str, tool: str, parallel: int
    ) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str], int] = {}
        header = {
            "concurrent_collections": parallel,
            "version": VERSION,
            "server_version": server,
            "tool_version": tool,
        }
        file.write(_MAGIC + encode(header))
        for description in described:
            kind = description.metadata.get("type", "collection")
            metadata = as_json(description.metadata) if description.metadata else ""
            prelude = {
                "db": description.database,
                "collection": description.collection,
                "metadata": metadata,
                "size": min(description.size, (1 << 31) - 1),
                "type": kind,
                "CRC": _signed(_prelude_crc(description.database, description.collection, metadata)),
            }
            file.write(encode(prelude))
        file.write(_TERMINATOR)

    def write(self, database: str, collection: str, documents: bytes) -> None:
        """Write documents that stand behind each other."""
        if not documents:
            return
        key = database, collection
        # Of one collection there is one writer: its sum needs no lock.
        self._sums[key] = crc64.xz(documents, self._sums[key]) if key in self._sums else crc64.xz(documents)
        header = _header(database, collection, is_last=False, crc=0)
        with self._lock:
            self._file.write(header)
            self._file.write(documents)
            self._file.write(_TERMINATOR)

    def end(self, database: str, collection: str) -> None:
        header = _header(database, collection, is_last=True, crc=self._sums.get((database, collection), 0))
        with self._lock:
            self._file.write(header + _TERMINATOR)


def _header(database: str, collection: str, *, is_last: bool, crc: int) -> bytes:
    return encode({"db": database, "collection": collection, "EOF": is_last, "CRC": _signed(crc)})


def _signed(crc: int) -> Int64:
    return Int64(crc - (1 << 64) if crc >> 63 else crc)


def _prelude_crc(database: str, collection: str, metadata: str) -> int:
    return crc64.xz("\0".join((database, collection, metadata)).encode())


class ArchiveReader:
    """Reads an archive: the collections are known at once, their documents come in stream order."""

    def __init__(self, file: IO[bytes]) -> None:
        """Errors: ArchiveError, bson.errors.BSONError."""
        self._file = file
        if file.read(4) != _MAGIC:
            raise ArchiveError("the stream does not begin as an archive does; --gzip is for compressed archives")
        header = self._document()
        version = header and decode(header, EXACT).get("version")
        if version != VERSION:
            raise ArchiveError(f"the archive has the version {version!r}, and only {VERSION!r} is known")
        self.described: list[Described] = []
        while (prelude := self._document()) is not None:
            self.described.append(_described(decode(prelude, EXACT)))

    def segments(self) -> Iterator[Segment]:
        """Yield the rest of the archive. Errors: ArchiveError, also if the documents differ from those written."""
        described_keys = {_key(description) for description in self.described}
        sums: dict[tuple[str, str], int] = {}
        ended: set[tuple[str, str]] = set()
        while (header_bytes := self._document(may_end=True)) is not None:
            header = decode(header_bytes, EXACT)
            try:
                key = database, collection = header["db"], header["collection"]
                is_last, expected = header["EOF"], header["CRC"]
            except KeyError as error:
                raise ArchiveError(f"a header of documents without {error}") from error
            if key not in described_keys and not is_oplog(*key):
                raise ArchiveError(f"the archive is damaged: it does not describe {database}.{collection}")
            for batch in self._batches():
                joined = b"".join(batch)
                sums[key] = crc64.xz(joined, sums[key]) if key in sums else crc64.xz(joined)
                yield Segment(
                    database, collection, [RawBSONDocument(document, RAW) for document in batch], is_last=False
                )
            if is_last:
                if sums.get(key, 0) != expected % (1 << 64):
                    raise ArchiveError(f"{database}.{collection} is damaged: its checksum is another one")
                ended.add(key)
                yield Segment(database, collection, [], is_last=True)
        if missing := [
            missing_collection
            for missing_collection in self.described
            if _has_documents(missing_collection) and _key(missing_collection) not in ended
        ]:
            raise ArchiveError(f"the archive ends before {missing[0].database}.{missing[0].collection} does")

    def _batches(self) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        size = 0
        while (document := self._document()) is not None:
            batch.append(document)
            size += len(document)
            if size >= _PIECE:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _document(self, *, may_end: bool = False) -> bytes | None:
        """Return the next document; None for a terminator."""
        head = self._file.read(4)
        if head == _TERMINATOR or (may_end and not head):
            return None
        if len(head) < 4:
            raise ArchiveError("the archive ends in the middle")
        (length,) = _LENGTH.unpack(head)
        if not 5 <= length <= MAX_ARCHIVED_DOCUMENT_BYTES:
            raise ArchiveError(f"{length} is neither the length of a document nor a terminator")
        body = self._file.read(length - 4)
        if len(body) < length - 4:
            raise ArchiveError("the archive ends in the middle")
        return head + body


def _described(prelude: dict[str, Any]) -> Described:
    try:
        text, database, collection = prelude.get("metadata", ""), prelude["db"], prelude["collection"]
        if prelude.get("CRC", expected := _signed(_prelude_crc(database, collection, text))) != expected:
            raise ArchiveError(f"the archive is damaged: what it says of {database}.{collection} is not what it said")
        return Described(database, collection, document_of(text) if text else {}, int(prelude.get("size", 0)))
    except (KeyError, ValueError, TypeError) as error:
        raise ArchiveError(f"what the archive says of a collection cannot be read: {error}") from error


def _has_documents(described: Described) -> bool:
    return described.metadata.get("type") != "view"


def _key(described: Described) -> tuple[str, str]:
    return described.database, documents_name(described.collection, described.metadata)
