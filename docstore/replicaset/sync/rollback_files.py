"""Where the documents go that rollbacks take away: files of BSON documents below `rollback/` in the database directory.

`rollback/<uuid of the collection>/removed.<time>.<n>.bson` holds what one rollback has removed from one collection, one
document after the other. `rollback/namespaces.json` has a line for each file: `{"file", "uuid", "ns"}`, the name that
the collection had. A document may stand there more than once, where a rollback was cut off or a write was repeated.

Always true: one file is open at a time; a file that could not be written whole ends where it ended before.
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
    """The files of one rollback, which are made when they are needed. `now`: seconds since 1970, for their names.

    `names`: those of the files made so far, below `directory`.
    """

    def __init__(self, directory: Path, now: float) -> None:
        self._directory = directory
        self._time = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H-%M-%S")
        self._files: dict[UUID, Path] = {}
        self._listed: set[Path] = set()
        self.names: list[str] = []

    def keep(self, removed: Iterable[RemovedDocument]) -> None:
        """Bring documents to disk; blocks. Where it fails (OSError), call it again with all of them."""
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
        """Make an empty file and its line in the index durable; done again where it failed half-way."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        name = f"{uuid}/{path.name}"
        line = json.dumps({"file": name, "uuid": str(uuid), "ns": ns}).encode() + b"\n"
        index = self._directory / INDEX_NAME
        # The line before may be torn by a crash.
        torn = index.exists() and index.read_bytes()[-1:] not in (b"", b"\n")
        _append(index, b"\n" + line if torn else line)
        for folder in (path.parent, self._directory, self._directory.parent):
            _sync_folder(folder)
        self._listed.add(path)
        self.names.append(name)


def _append(path: Path, written: bytes) -> None:
    """Add bytes at the end of a file and bring them to disk; when that fails, none of them stay."""
    with path.open("ab", buffering=0) as file:
        end = file.tell()
        try:
            left = memoryview(written)
            while left:
                left = left[file.write(left) :]
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
