"""The repository: a directory with backups, each a directory of its own with a manifest.

Invariants, also after a crash or power failure:

- a directory with a backup's name is a complete backup. It is created under a name that begins with `.partial-`,
  flushed, and renamed; to remove it, it is first renamed to `.removed-`. Such directories of an interrupted process
  are deleted when the next one begins to write;
- one process at a time writes; readers keep it from removing;
- files that two backups share are hard links: no backup needs another one's.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from docstore.backup.durable import check_file, write_durably
from docstore.backup.failures import Damaged
from docstore.backup.manifest import NAME, OPLOG, Manifest, Part
from docstore.tools.durable import sync_directory
from docstore.tools.terminal import ToolFailed

_BACKUP = re.compile(r"\d{6}-\d{8}T\d{6}Z")
_PARTIAL = ".partial-"
_REMOVED = ".removed-"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The backups of a repository, oldest first. `damaged`: the reasons why others cannot be used, by name."""

    manifests: tuple[Manifest, ...]
    damaged: Mapping[str, str]

    def require_newest(self) -> None:
        """Raise Damaged if the newest backup is damaged: the newest of the others holds less than was asked for."""
        newest = max((*(manifest.name for manifest in self.manifests), *self.damaged), default="")
        if newest in self.damaged:
            raise Damaged(f"the newest backup is damaged, an older one must be named: {self.damaged[newest]}")

    def require(self, name: str) -> None:
        """Errors: Damaged."""
        if name in self.damaged:
            raise Damaged(self.damaged[name])


class Repository:
    """See the module. Make it by `writing` or `reading`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @contextmanager
    def writing(cls, path: Path) -> Iterator[Repository]:
        """Open the repository for exclusive writing; create it if necessary, and clean up. Errors: ToolFailed,
        OSError.
        """
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path, fcntl.LOCK_EX):
            for entry in path.iterdir():
                if entry.name.startswith((_PARTIAL, _REMOVED)):
                    shutil.rmtree(entry)
            yield cls(path)

    @classmethod
    @contextmanager
    def reading(cls, path: Path) -> Iterator[Repository]:
        """Open the repository for reading, beside other readers. Errors: ToolFailed, OSError."""
        if not path.is_dir():
            raise ToolFailed(f"there is no repository {path}")
        with _locked(path, fcntl.LOCK_SH):
            yield cls(path)

    def names(self) -> list[str]:
        """Return the names of all backups, oldest first."""
        return sorted(entry.name for entry in self.path.iterdir() if _BACKUP.fullmatch(entry.name))

    def manifest(self, name: str) -> Manifest:
        """Errors: Damaged."""
        path = self.path / name / NAME
        try:
            manifest = Manifest.decode(path.read_bytes(), str(path))
        except OSError as error:
            raise Damaged(f"{path} cannot be read: {error.strerror}") from error
        if manifest.name != name:
            raise Damaged(f"{path} is that of {manifest.name}")
        return manifest

    def inventory(self) -> Inventory:
        """Read all manifests. A damaged one affects only its own backup, because backups do not need each other."""
        manifests, damaged = list[Manifest](), dict[str, str]()
        for name in self.names():
            try:
                manifests.append(self.manifest(name))
            except Damaged as error:
                damaged[name] = error.message
        return Inventory(tuple(manifests), damaged)

    def directory(self, manifest: Manifest, part: Part) -> Path:
        return self.path / manifest.name / part.directory

    def check(self, manifest: Manifest) -> None:
        """Read every file of a backup. Errors: Damaged."""
        for part in manifest.parts:
            directory = self.directory(manifest, part)
            for file in part.files:
                check_file(directory / file.name, file.size, file.sha256)
            if part.span is not None:
                check_file(directory / OPLOG, part.span.size, part.span.sha256)

    def begin(self) -> tuple[str, Path]:
        """Return (name of a new backup, its temporary directory)."""
        names = self.names()
        number = int(names[-1][:6]) + 1 if names else 1
        name = f"{number:06}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        directory = self.path / f"{_PARTIAL}{name}"
        directory.mkdir()
        return name, directory

    def finish(self, directory: Path, manifest: Manifest) -> None:
        """Publish the backup. Its files are on disk already; the directory entries are flushed now."""
        write_durably(directory / NAME, [manifest.encode()])
        for part in manifest.parts:
            sync_directory(directory / part.directory)
        sync_directory(directory)
        directory.rename(self.path / manifest.name)
        sync_directory(self.path)

    def discard(self, directory: Path) -> None:
        """Discard an unfinished backup."""
        shutil.rmtree(directory, ignore_errors=True)

    def remove(self, name: str) -> None:
        removed = self.path / f"{_REMOVED}{name}"
        (self.path / name).rename(removed)
        sync_directory(self.path)
        shutil.rmtree(removed)

    def own_size(self, name: str) -> int:
        """Return the bytes of the files that no other backup shares."""
        stats = [file.stat() for file in (self.path / name).rglob("*") if file.is_file()]
        return sum(stat.st_size for stat in stats if stat.st_nlink == 1)


@contextmanager
def _locked(path: Path, mode: int) -> Iterator[None]:
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ToolFailed(f"{path} cannot be used as a repository: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ToolFailed(f"the repository {path} is in use by another process") from None
    try:
        yield
    finally:
        os.close(descriptor)
