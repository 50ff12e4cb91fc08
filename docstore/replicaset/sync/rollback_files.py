"""Files of documents removed by rollbacks, in BSON below `rollback/` in the database directory.

`rollback/<uuid of the collection>/removed.<time>.<n>.bson` holds the documents that one rollback has removed from one
collection, concatenated. `rollback/namespaces.json` has a line per file: `{"file", "uuid", "ns"}`, with the
collection's name at that time. A document may appear more than once, if a rollback was interrupted or a write was
repeated.

One file is open at a time; after a failed write a file has its former length.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from uuid import UUID

from docstore.collection.oplog.rollback import RemovedDocument

INDEX_NAME = "namespaces.json"


class RollbackFiles:
    """The files of one rollback, created when needed. `now`: seconds since 1970, for their names.

    `names`: the files created so far, below `directory`.
    """

    def __init__(self, directory: Path, now: float) -> None:
        self._directory = directory
        self._time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H-%M-%S")
        self._files: dict[UUID, Path] = {}
        self._listed: set[Path] = set()
        self.names: list[str] = []

    def keep(self, removed: Iterable[RemovedDocument]) -> None:
        """Write documents to disk; blocks. After an OSError, call it again with all of them."""
        by_collection: dict[tuple[UUID, str], list[bytes]] = {}
        for uuid, ns, document in removed:
            by_collection.setdefault((uuid, ns), []).append(document)
        for (uuid, ns), documents in by_collection.items():
            path = self._files.get(uuid)
            if path is None:
                path = self._files[uuid] = self._free_path(uuid)
            if path not in self._listed:
                self._enter(path, uuid, ns)
            _append(path, b"".join(documents))

    def _free_path(self, uuid: UUID) -> Path:
        folder = self._directory / str(uuid)
        return next(path for n in count() if not (path := folder / f"removed.{self._time}.{n}.bson").exists())

    def _enter(self, path: Path, uuid: UUID, ns: str) -> None:
        """Create an empty file and its line in the index, durably; repeatable after a failure."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        name = f"{uuid}/{path.name}"
        line = json.dumps({"file": name, "uuid": str(uuid), "ns": ns}).encode() + b"\n"
        index = self._directory / INDEX_NAME
        # A crash may have torn the preceding line.
        torn = index.exists() and index.read_bytes()[-1:] not in (b"", b"\n")
        _append(index, b"\n" + line if torn else line)
        for folder in (path.parent, self._directory, self._directory.parent):
            _sync_folder(folder)
        self._listed.add(path)
        self.names.append(name)


def _append(path: Path, written: bytes) -> None:
    """Append bytes to a file and sync it; on failure restore the former length."""
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        try:
            unwritten = memoryview(written)
            while unwritten:
                unwritten = unwritten[file.write(unwritten) :]
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                file.truncate(end)
            raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
