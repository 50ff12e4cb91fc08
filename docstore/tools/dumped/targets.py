"""The targets of a dump: files in a directory, an archive, or the documents of one collection on standard output.

The metadata of all collections comes first, then their documents, of several collections at once.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

import docstore
from docstore.tools.dumped import inventory
from docstore.tools.dumped.archive import ArchiveWriter, Described
from docstore.tools.dumped.files import (
    OPLOG,
    documents_file,
    documents_name,
    metadata_file,
    open_file,
)
from docstore.tools.dumped.inventory import DumpedCollection, DumpedFile, Summed
from docstore.tools.durable import sync_directory
from docstore.tools.text.extended_json import as_json

_LOG = "", OPLOG
"""The database and the collection as which the log stands in archives and inventories."""
_NO_DOCUMENT = b"\0" * 4
"""An invalid length of a document, which readers refuse."""


@dataclass(frozen=True, slots=True)
class Source:
    """A collection to dump: its namespace, its name in the dump, and the selection of its documents.

    Users of one database are dumped in it under a name of their own. A source without documents is a view; `of_view`:
    the documents of a view; `is_family`: a column family.
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
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    @property
    def dumped_documents(self) -> str:
        """Return the name of its documents in the dump."""
        return documents_name(self.dumped_collection, self.metadata)


class Sink(Protocol):
    """Writes the documents of one collection, concatenated."""

    def write(self, documents: bytes, /) -> object: ...


class Target(Protocol):
    """A place for a dump."""

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        """Write the metadata of all collections. `server`: its version; `parallel`: how many are dumped at once."""

    def open(self, source: Source) -> AbstractContextManager[Sink]:
        """Open the sink of a collection. Its documents are complete if the body ends without an error."""

    def open_oplog(self) -> AbstractContextManager[Sink]:
        """Open the sink of log entries, after all documents; see `begin`."""

    def close(self) -> None:
        """Flush everything to disk and mark the dump complete. Errors: OSError, ToolFailed."""

    def abandon(self) -> None:
        """Leave the dump so that it is not mistaken for a complete one."""


class DirectoryTarget:
    """Two files for each collection, below a directory for each database, and the inventory of all of them."""

    def __init__(self, root: Path, *, compressed: bool) -> None:
        self._root, self._compressed = root.absolute(), compressed
        self._lock = threading.Lock()
        self._files: dict[tuple[str, str], list[DumpedFile]] = {}

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        keys = [(source.dumped_database, source.dumped_collection) for source in sources]
        self._files = {key: [] for key in (*keys, *([_LOG] if with_oplog else ()))}
        inventory.begin(self._root, list(self._files))
        for (database, collection), source in zip(keys, sources, strict=True):
            (self._root / database).mkdir(exist_ok=True)
            path = metadata_file(self._root, database, collection, compressed=self._compressed)
            with self._open((database, collection), path) as file:
                file.write(as_json(source.metadata).encode())

    @contextmanager
    def open(self, source: Source) -> Iterator[Sink]:
        path = documents_file(self._root, source.dumped_database, source.dumped_documents, compressed=self._compressed)
        with self._open((source.dumped_database, source.dumped_collection), path) as file:
            yield file

    @contextmanager
    def open_oplog(self) -> Iterator[Sink]:
        suffix = ".bson.gz" if self._compressed else ".bson"
        with self._open(_LOG, self._root / (OPLOG + suffix)) as file:
            yield file

    @contextmanager
    def _open(self, key: tuple[str, str], path: Path) -> Iterator[Summed]:
        """Open a file of a collection. It is flushed and listed if the body ends without an error."""
        with open_file(path, "wb", compressed=self._compressed) as file:
            summed = Summed(file)
            yield summed
        with path.open("rb") as written:
            os.fsync(written.fileno())
        with self._lock:
            self._files[key].append(inventory.file_of(self._root, path, summed.crc))

    def close(self) -> None:
        for directory in {self._root / database for database, _ in self._files}:
            sync_directory(directory)
        inventory.finish(
            self._root,
            [DumpedCollection(*key, finished=True, files=tuple(files)) for key, files in self._files.items()],
        )

    def abandon(self) -> None:
        """List the collections as unfinished in the inventory."""


class _Stream:
    """The stream that gets all output, compressed or not."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._raw = file
        self.file = cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6)) if compressed else file

    def close(self) -> None:
        """Flush all output, for a file to disk. Errors: OSError."""
        if self.file is not self._raw:
            self.file.close()
        self._raw.flush()
        with suppress(io.UnsupportedOperation):
            if stat.S_ISREG(os.fstat(self._raw.fileno()).st_mode):
                os.fsync(self._raw.fileno())

    def spoil(self) -> None:
        """Make every reader fail, also at the other end of a pipe: append bytes that are neither a document nor an
        end.
        """
        with suppress(OSError, ValueError):
            self.file.write(_NO_DOCUMENT)
            if self.file is not self._raw:
                self.file.close()
            self._raw.flush()


class ArchiveTarget:
    """One stream, in which each collection has its end."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._stream = _Stream(file, compressed=compressed)
        self.close, self.abandon = self._stream.close, self._stream.spoil
        self._writer: ArchiveWriter | None = None

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        described = [
            Described(source.dumped_database, source.dumped_collection, source.metadata, 0) for source in sources
        ]
        if with_oplog:
            described.append(Described(*_LOG, {}, 0))
        self._writer = ArchiveWriter(
            self._stream.file, described, server=server, tool=docstore.__version__, parallel=parallel
        )
        for view in (candidate for candidate in sources if not candidate.has_documents):
            # Readers wait for the end of everything that is described.
            self._writer.end(view.dumped_database, view.dumped_collection)

    @contextmanager
    def open(self, source: Source) -> Iterator[Sink]:
        assert self._writer is not None
        yield _ArchiveSink(self._writer, source.dumped_database, source.dumped_documents)
        self._writer.end(source.dumped_database, source.dumped_documents)

    @contextmanager
    def open_oplog(self) -> Iterator[Sink]:
        assert self._writer is not None
        yield _ArchiveSink(self._writer, *_LOG)
        self._writer.end(*_LOG)


class _ArchiveSink:
    def __init__(self, writer: ArchiveWriter, database: str, name: str) -> None:
        self._writer, self._database, self._name = writer, database, name

    def write(self, documents: bytes, /) -> None:
        self._writer.write(self._database, self._name, documents)


class StreamTarget:
    """The documents of one collection without an end mark: the exit status says if they are complete."""

    def __init__(self, file: IO[bytes], *, compressed: bool) -> None:
        self._stream = _Stream(file, compressed=compressed)
        self.close, self.abandon = self._stream.close, self._stream.spoil

    def begin(self, sources: Sequence[Source], *, server: str, parallel: int, with_oplog: bool) -> None:
        assert len(sources) == 1

    @contextmanager
    def open(self, source: Source) -> Iterator[Sink]:
        yield self._stream.file

    def open_oplog(self) -> AbstractContextManager[Sink]:
        raise AssertionError("an oplog is that of all collections")
