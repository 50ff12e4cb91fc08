"""Copies the files of a checkpoint from a server into a backup.

An immutable file that the backup before has already is shared with it by a hard link, or a copy on file systems
without links. Its checksum is verified first: a damaged one is copied from the server again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.backup.access import Client
from docstore.backup.durable import check_file, checked_pieces, write_durably
from docstore.backup.failures import Damaged
from docstore.backup.manifest import Part, StoredFile
from docstore.optime import OpTime
from docstore.tools.terminal import Progress, ToolFailed

_PIECE = 4 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The server's reply to backupOpen."""

    identity: ObjectId
    database: str
    set_id: str | None
    after: OpTime | None
    until: OpTime | None
    files: tuple[tuple[str, int, int], ...]
    """(name, size, modified) of each."""

    @classmethod
    def opened(cls, client: Client) -> Checkpoint:
        """Errors: PyMongoError."""
        reply = client.admin.command("backupOpen")
        after, until = (OpTime.from_document(reply[name]) if name in reply else None for name in ("after", "until"))
        files = tuple((row["name"], int(row["size"]), int(row["modified"])) for row in reply["files"])
        set_id = reply.get("setId")
        owner = None if set_id is None else str(set_id)
        return cls(reply["backupId"], reply["database"], owner, after, until, files)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The backup before, of the same part, whose files can be shared."""

    directory: Path
    files: Mapping[str, StoredFile]

    @classmethod
    def of(cls, directory: Path, part: Part) -> Earlier:
        return cls(directory, {file.name: file for file in part.files})

    def find(self, name: str, size: int, modified: int) -> StoredFile | None:
        file = self.files.get(name)
        return file if file is not None and file.is_same(name, size, modified) else None


class Transfer:
    """Copies one checkpoint to `directory`."""

    def __init__(
        self, client: Client, checkpoint: Checkpoint, directory: Path, earlier: Earlier | None, progress: Progress
    ) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self._directory = directory
        self._earlier = earlier
        self._progress = progress
        self.shared = 0
        """The number of files that were there already."""
        self.damaged: list[str] = []
        """Errors in files of the backup before."""

    def run(self, pool: Executor) -> tuple[StoredFile, ...]:
        """Errors: ToolFailed, OSError, PyMongoError; the first of them ends the work."""
        tasks = [pool.submit(self._take, file) for file in self._checkpoint.files]
        try:
            return tuple(task.result() for task in tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            raise

    def _take(self, file: tuple[str, int, int]) -> StoredFile:
        name, size, modified = file
        if "/" in name or name.startswith("."):
            raise ToolFailed(f"the server names a file that is none of a checkpoint: {name}")
        stored_file = None if self._earlier is None else self._earlier.find(name, size, modified)
        if (
            stored_file is not None
            and self._earlier is not None
            and self._is_good(self._earlier.directory / name, stored_file)
        ):
            self.shared += 1
            _share(self._earlier.directory / name, self._directory / name, stored_file)
            return stored_file
        written, sha256 = write_durably(self._directory / name, self._pieces(name, size))
        if written != size:
            raise ToolFailed(f"{name} has {written} bytes where the server said {size}")
        return StoredFile(name=name, size=size, modified=modified, sha256=sha256)

    def _is_good(self, path: Path, file: StoredFile) -> bool:
        try:
            check_file(path, file.size, file.sha256)
        except Damaged as error:
            self.damaged.append(error.message)
            return False
        return True

    def _pieces(self, name: str, size: int) -> Iterator[bytes]:
        label = f"{self._directory.name}/{name}"
        self._progress.begin(label, size)
        offset = 0
        try:
            while offset < size:
                request: dict[str, Any] = {"backupRead": self._checkpoint.identity, "file": name}
                reply = self._client.admin.command(request | {"offset": Int64(offset), "length": _PIECE})
                piece = bytes(reply["data"])
                if not piece:
                    raise ToolFailed(f"{name} ends after {offset} of {size} bytes")
                yield piece
                offset += len(piece)
                self._progress.reach(label, offset)
        finally:
            self._progress.end(label)


def _share(source: Path, target: Path, file: StoredFile) -> None:
    try:
        os.link(source, target)
    except OSError:
        write_durably(target, checked_pieces(source, file.size, file.sha256))
