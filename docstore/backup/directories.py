"""Restores a data directory from a backup: its files, then the entries of the oplog up to the time.

Invariants:

- directories are built under other names beside them, and renamed when all of them are complete; the remains of an
  interrupted attempt are replaced;
- every file is verified against its checksum while it is copied, and every entry against those before it: a log that
  does not continue the checkpoint is an error.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bson.timestamp import Timestamp

from docstore.backup.chain import Chain
from docstore.backup.durable import check_file, checked_pieces, write_durably
from docstore.backup.failures import Damaged
from docstore.backup.manifest import OPLOG, Part
from docstore.backup.repository import Repository
from docstore.collection.oplog.apply import ApplyError
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.store import Store
from docstore.optime import pack_timestamp
from docstore.replicaset.sync.apply import Applier
from docstore.storage import StorageError, open_engine
from docstore.storage.restored import mark_restored
from docstore.tools.durable import sync_directory
from docstore.tools.terminal import ToolFailed
from docstore.widecolumn.node.storage_mode import WideColumnMode

_OPLOG_BYTES = 990 << 20
_AT_ONCE = 1000


@contextmanager
def new_directories(paths: Sequence[Path]) -> Iterator[Mapping[Path, Path]]:
    """Yield directories to fill, by their final paths. If the body ends without an error, all get their names and
    identities of their own; else all are removed. Errors: ToolFailed, OSError.
    """
    for path in paths:
        check_free(path)
    making = {path: path.parent / f".{path.name}.restoring" for path in paths}
    renamed_paths: list[Path] = []
    try:
        for directory in making.values():
            if directory.exists():
                shutil.rmtree(directory)
            directory.mkdir(parents=True)
        yield making
        for directory in making.values():
            mark_restored(directory)
            sync_directory(directory)
        for path, directory in making.items():
            directory.rename(path)
            renamed_paths.append(path)
        for parent in {path.parent for path in paths}:
            sync_directory(parent)
    except BaseException:
        for directory in (*renamed_paths, *making.values()):
            shutil.rmtree(directory, ignore_errors=True)
        raise


def check_free(path: Path) -> None:
    """Errors: ToolFailed."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ToolFailed(f"{path} is not empty: a restore makes the directory, and writes over nothing")


def copy_files(repository: Repository, chain: Chain, name: str, target: Path) -> None:
    """Copy the checkpoint of a part. Errors: Damaged, OSError."""
    part = _part(chain, name)
    for file in part.files:
        source = repository.directory(chain.base, part) / file.name
        write_durably(target / file.name, checked_pieces(source, file.size, file.sha256))


def copy_directory(source: Path, target: Path) -> None:
    """Copy another member's data directory."""
    for file in sorted(source.iterdir()):
        if file.is_file():
            with file.open("rb") as content:
                write_durably(target / file.name, iter(lambda: content.read(1 << 20), b""))


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """Open the data of a directory; it is flushed at the end of the body. Errors: Damaged."""
    try:
        engine = open_engine("rocksdb", str(path))
    except StorageError as error:
        raise Damaged(f"the files of the backup are no database: {error}") from error
    try:
        store = Store(engine, clock=time.time, mode=WideColumnMode())
        yield store
        engine.flush()
    finally:
        engine.close()


def replay(
    repository: Repository, chain: Chain, name: str, store: Store, progress: Callable[[int], None] = lambda count: None
) -> int:
    """Apply the entries of the logs up to the point; return how many. Errors: Damaged."""
    if chain.point is None:
        return 0
    oplog = store.attach_oplog(_OPLOG_BYTES)
    oplog.writable = False
    part = _part(chain, name)
    last = store.last_optime
    if part.after is None or part.until is None or not part.after <= last <= part.until:
        raise Damaged(f"{name}: the checkpoint ends at {last}, which is not what its manifest says")
    applied = 0
    applier = Applier(store, clock=time.monotonic, wall_clock=time.time, progressed=lambda: None)
    for entries in _following(_entries(repository, chain, name), store, chain.point):
        try:
            asyncio.run(applier.apply(entries))
        except ApplyError as error:
            raise Damaged(f"{name}: the oplog does not fit the checkpoint: {error}") from error
        applied += len(entries)
        progress(applied)
    return applied


def _entries(repository: Repository, chain: Chain, name: str) -> Iterator[bytes]:
    for backup in chain.backups:
        part = backup.part(name)
        assert part is not None, "a chain goes on with the same parts"
        if part.span is None:
            continue
        path = repository.directory(backup, part) / OPLOG
        check_file(path, part.span.size, part.span.sha256)
        with path.open("rb") as file:
            while head := file.read(4):
                yield head + file.read(int.from_bytes(head, "little") - 4)


def _following(entries: Iterator[bytes], store: Store, point: Timestamp) -> Iterator[list[bytes]]:
    """Yield the entries after the end of the log, in groups. Spans may overlap. Errors: Damaged if they do not
    continue it.
    """
    limit, last, joined, group = pack_timestamp(point), store.last_optime, False, list[bytes]()
    for entry in entries:
        at = entry_optime(entry)
        if at.timestamp > limit:
            break
        if at.timestamp <= last.timestamp:
            if at.timestamp == last.timestamp and at != last:
                raise Damaged(f"the oplog has the entry {at} where the data ends at {last}")
            joined = joined or at == last
            continue
        if not joined:
            raise Damaged(f"the oplog goes on at {at}, and the data ends at {last}")
        group.append(entry)
        last = at
        if len(group) == _AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def _part(chain: Chain, name: str) -> Part:
    part = chain.base.part(name)
    if part is None:
        raise ToolFailed(f"the backup has no part {name}: it has {', '.join(entry.name for entry in chain.base.parts)}")
    return part
