"""Where a dump goes: files in a directory, an archive, or the documents of one collection to the standard output.

The metadata of all collections comes first, then their documents, of several collections at once.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

import docstore
from docstore.tools.dumped.archive import ArchiveWriter, Described
from docstore.tools.dumped.files import (
    OPLOG,
    documents_file,
    documents_name,
    metadata_file,
    open_file,
    write_metadata,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A collection to dump: where it is, as what it is dumped, and which of its documents.

    Users of one database are dumped in it under a name of their own. What has no documents is a view, and `of_view` are
    the documents of one; `is_family`: a column family.
    """

    database: str
    collection: str
    dumped_database: str
    dumped_collection: str
    metadata: dict[str, Any]
    query: dict[str, Any]
    has_documents: bool
    of_view: bool = False
    is_family: bool = False
    in_natural_order: bool = False

    @property
    def dumped_documents(self) -> str:
        """The name of its documents in the dump."""
        return documents_name(self.dumped_collection, self.metadata)


class Sink(Protocol):
    """The documents of one collection, which stand behind each other in what is written."""

    def write(self, documents: bytes, /) -> object: ...


class Target(Protocol):
    """A place for a dump."""

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        """Write what is known of all collections: `server` is its version, `parallel` how many are dumped at once."""

    def open(self, source: Source) -> AbstractContextManager[Sink]:
        """The documents of a collection. Left without an error, they are complete."""

    def open_oplog(self) -> AbstractContextManager[Sink]:
        """The entries of the log, behind all documents; see `begin`."""


class DirectoryTarget:
    """Two files for each collection, below a directory for each database."""

    def __init__(self, root: Path, *, compressed: bool) -> None:
        self._root, self._compressed = root, compressed

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        for source in sources:
            (self._root / source.dumped_database).mkdir(parents=True, exist_ok=True)
            path = metadata_file(
                self._root, source.dumped_database, source.dumped_collection, compressed=self._compressed
            )
            write_metadata(path, source.metadata, compressed=self._compressed)

    @contextmanager
    def open(self, source: Source) -> Iterator[Sink]:
        path = documents_file(self._root, source.dumped_database, source.dumped_documents, compressed=self._compressed)
        with open_file(path, "wb", compressed=self._compressed) as file:
            yield file

    @contextmanager
    def open_oplog(self) -> Iterator[Sink]:
        self._root.mkdir(parents=True, exist_ok=True)
        suffix = ".bson.gz" if self._compressed else ".bson"
        with open_file(self._root / (OPLOG + suffix), "wb", compressed=self._compressed) as file:
            yield file


class ArchiveTarget:
    """One stream."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._file = cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6)) if compressed else file
        self._writer: ArchiveWriter | None = None

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        described = [Described(each.dumped_database, each.dumped_collection, each.metadata, 0) for each in sources]
        if with_oplog:
            described.append(Described("", OPLOG, {}, 0))
        self._writer = ArchiveWriter(self._file, described, server=server, tool=docstore.__version__, parallel=parallel)

    @contextmanager
    def open(self, source: Source) -> Iterator[Sink]:
        assert self._writer is not None
        yield _ArchiveSink(self._writer, source.dumped_database, source.dumped_documents)
        self._writer.end(source.dumped_database, source.dumped_documents)

    @contextmanager
    def open_oplog(self) -> Iterator[Sink]:
        assert self._writer is not None
        yield _ArchiveSink(self._writer, "", OPLOG)
        self._writer.end("", OPLOG)

    def close(self) -> None:
        """Write what is left; of a compressed stream, its end."""
        if isinstance(self._file, gzip.GzipFile):
            self._file.close()
        else:
            self._file.flush()


class _ArchiveSink:
    def __init__(self, writer: ArchiveWriter, database: str, name: str) -> None:
        self._writer, self._database, self._name = writer, database, name

    def write(self, documents: bytes, /) -> None:
        self._writer.write(self._database, self._name, documents)


class StreamTarget:
    """The documents of one collection alone."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._file, self._compressed = file, compressed

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        assert len(sources) == 1

    @contextmanager
    def open(self, source: Source) -> Iterator[Sink]:
        if self._compressed:
            with gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=6) as file:
                yield file
        else:
            yield self._file
        self._file.flush()

    def open_oplog(self) -> AbstractContextManager[Sink]:
        raise AssertionError("an oplog is that of all collections")
