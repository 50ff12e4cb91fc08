"""Verification of a dump against its inventory or checksums, before a restore changes anything.

A directory of Docstore's mongodump has an inventory; an archive has checksums and ends of its collections.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bson.errors import BSONError

from docstore.tools.dumped.archive import ArchiveError, ArchiveReader
from docstore.tools.dumped.files import OPLOG, documents_file, documents_name, is_oplog
from docstore.tools.dumped.inventory import DumpedCollection, Inventory, fault_of, find_inventory
from docstore.tools.dumped.origins import STDIN, Origin, uncompressed
from docstore.tools.terminal import Terminal, ToolFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a directory to restore: of the dump at `root`, or of its `database` alone, the collections that
    `takes` accepts. `origins`: the existing ones among them. `with_log`: the log is replayed.
    """

    root: Path
    database: str | None
    takes: Callable[[Origin], bool]
    origins: Sequence[Origin]
    with_log: bool
    compressed: bool


def check_directory(selection: Selection, terminal: Terminal) -> None:
    """Errors: ToolFailed where files that are to be restored are missing, damaged, or of a dump without its end."""
    if selection.root == STDIN:
        return
    inventory = find_inventory(selection.root)
    if inventory is None:
        terminal.say("the dump has no inventory: files that are missing or damaged are not noticed")
        return
    entries = list(_entries(inventory, selection))
    faults = [fault for entry in entries for fault in _faults(inventory, entry, compressed=selection.compressed)]
    if faults:
        raise ToolFailed(f"the dump is not whole, and nothing was restored: {'; '.join(faults)}")
    checked = {(inventory.directory / file.path) for entry in entries for file in entry.files}
    for origin in selection.origins:
        if origin.documents is not None and origin.documents.absolute() not in checked:
            terminal.say(f"{origin.documents} is not in the inventory of the dump: it is restored unchecked")
    if not selection.with_log and any(is_oplog(*entry.key) for entry in inventory.collections):
        terminal.say("leaving out the oplog of the dump: --oplogReplay replays it")


def check_log(path: Path) -> None:
    """Errors: ToolFailed for the log of a dump that is damaged, or has no end."""
    inventory = find_inventory(path.parent)
    if inventory is None:
        return
    own = {inventory.directory / f"{OPLOG}.bson", inventory.directory / f"{OPLOG}.bson.gz"}
    for entry in inventory.collections:
        if is_oplog(*entry.key) and path.absolute() in own:
            faults = list(_faults(inventory, entry, compressed=path.suffix == ".gz"))
            if faults:
                raise ToolFailed(f"the log is not whole, and nothing was restored: {'; '.join(faults)}")


def check_archive(path: Path, *, compressed: bool) -> None:
    """Read all of an archive. Errors: ToolFailed, OSError."""
    try:
        with path.open("rb") as file:
            for _ in ArchiveReader(uncompressed(file) if compressed else file).segments():
                pass
    except (ArchiveError, BSONError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ToolFailed(f"{path} is not whole, and nothing was restored: {error}") from error


def _entries(inventory: Inventory, selection: Selection) -> Iterator[DumpedCollection]:
    """Yield the entries of the collections that are restored."""
    paths = {origin.documents.absolute() for origin in selection.origins if origin.documents is not None}
    root = selection.root.absolute()
    for entry in inventory.collections:
        if is_oplog(*entry.key):
            continue
        name = documents_name(entry.collection, {})
        own = {
            documents_file(inventory.directory, entry.database, name, compressed=compressed)
            for compressed in (False, True)
        } | {inventory.directory / file.path for file in entry.files}
        if not own.isdisjoint(paths):
            yield entry
            continue
        if root == inventory.directory and selection.database in (None, entry.database):
            database = entry.database
        elif root == inventory.directory / entry.database:
            database = selection.database or entry.database
        else:
            continue
        if selection.takes(Origin(database, entry.collection, {}, None)):
            yield entry


def _faults(inventory: Inventory, entry: DumpedCollection, *, compressed: bool) -> Iterator[str]:
    if not entry.finished:
        name = f"{entry.database}.{entry.collection}" if entry.database else "the oplog"
        yield f"the dump of {name} was interrupted"
    for file in entry.files:
        if file.path.endswith(".gz") and not compressed:
            yield f"{file.path} is compressed: --gzip"
        elif compressed and not file.path.endswith(".gz"):
            yield f"{file.path} is not compressed: without --gzip"
        elif (fault := fault_of(inventory.directory, file)) is not None:
            yield fault
