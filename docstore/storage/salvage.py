"""Salvage of a damaged data directory: a fresh database is filled with all readable data and replaces it.

The directory's own files stay untouched until the fresh ones are complete, and are kept afterwards
(`docstore.storage.repairs` records the phases). The sources, in this order:

* The sorted files of the MANIFEST, except missing ones and those that RocksDB cannot open. If no MANIFEST is intact,
  all existing sorted files: old versions of documents may then reappear, which is reported.
* The write-ahead logs, parsed here and not by RocksDB: also behind damage, and for families that no sorted file names.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from docstore.key_layout import DIRECTORY_IDENTITY_KEY, FORMAT_KEY
from docstore.log import component
from docstore.storage.directory import (
    MARKER,
    SYNCED,
    UNKNOWN,
    Provenance,
    engine_files,
    manifests,
    new_identity,
    read_provenance,
)
from docstore.storage.durable import sync_directory
from docstore.storage.engine import Batch, DataCorrupted, Family, StorageError
from docstore.storage.inspection import Inspection, Kind, inspect, read_manifest
from docstore.storage.log_replay import replay_logs
from docstore.storage.opening import (
    UnknownFormat,
    make_directory,
    open_locked,
    refuse_unknown_format,
    write_format,
)
from docstore.storage.repairs import Loss, Phase, Repair, begin_repair, unfinished_repair
from docstore.storage.rocks import RocksEngine, remake_file_list
from docstore.storage.rocks_format import (
    Gap,
    Version,
    read_records,
)
from docstore.storage.table_copy import copy_readable
from docstore.storage.table_list import ListedTable, TableList, link

LOG = component("STORAGE")


def salvage(path: Path) -> Repair:
    """Return a repair of the locked directory, in the phase of checking: all files are readable then.

    Errors: UnknownFormat; StorageError if nothing can be opened at all, or there is no room for a copy.
    """
    repair = unfinished_repair(path)
    if repair is None:
        reason = _find_damage(path)
        repair = begin_repair(path, reason)
        if not reason:
            return repair
        LOG.warning("Damage was found", path=str(path), damage=reason)
        return _replace_files(path, repair)
    LOG.warning("A repair that was not finished goes on", directory=str(repair.directory), phase=repair.phase.value)
    was_filled = repair.phase is not Phase.FILLING
    repair = _replace_files(path, repair)
    # The files of an earlier process may have been damaged since.
    if was_filled and (reason := _find_damage(path, repair.recorded)):
        repair = _replace_files(path, begin_repair(path, reason, repair))
    return repair


def _replace_files(path: Path, repair: Repair) -> Repair:
    """Continue a repair up to the phase of checking, and return it."""
    if repair.phase is Phase.FILLING:
        repair = _fill(path, repair)
    if repair.phase is Phase.MOVING_OUT:
        repair.damaged.mkdir(exist_ok=True)
        _move(path, repair.damaged, repair.moved)
        repair = repair.enter(Phase.MOVING_IN, moved=tuple(sorted(file.name for file in repair.fresh.iterdir())))
    if repair.phase is Phase.MOVING_IN:
        if repair.fresh.exists():
            _move(repair.fresh, path, repair.moved)
        repair = repair.enter(Phase.CHECKING)
    for directory in (repair.fresh, repair.work):
        shutil.rmtree(directory, ignore_errors=True)
    return repair


def _move(source: Path, target: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if (source / name).exists():
            (source / name).rename(target / name)
    sync_directory(target)
    sync_directory(source)


def _find_damage(path: Path, recorded: Provenance = UNKNOWN) -> str:
    """Return a description of the damage in a directory's files; empty if all are readable.

    `recorded`: the provenance that an unfinished repair has recorded.
    """
    state = inspect(path, recorded)
    if state.damage:
        return "; ".join(state.damage)
    if state.kind in (Kind.NEW, Kind.UNFINISHED):
        return ""
    if any(log.later_sequence for log in state.logs):
        return "; ".join(state.torn)
    try:
        engine = open_locked(path)
    except UnknownFormat:
        raise
    except StorageError as error:
        return str(error)
    try:
        for family in Family:
            for _ in engine.items(family, b"", b"\xff" * 16):
                pass
    except DataCorrupted as error:
        return str(error)
    finally:
        engine.close()
    return ""


def _fill(path: Path, repair: Repair) -> Repair:
    for directory in (repair.fresh, repair.work):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
    state = inspect(path, repair.recorded)
    manifest = _whole_manifest(path, state)
    marked = None if state.marker is None else state.marker.identity
    identity = marked or new_identity()
    losses: list[Loss] = []
    if state.mark is None:
        losses.append(Loss(f"without the file {SYNCED} it is not known whether the last changes of the logs are there"))
    target = make_directory(repair.fresh, identity=identity)
    try:
        source = _open_tables(path, repair.work, state, manifest, losses)
        if source is not None:
            try:
                losses += _check_origin(source, marked)
                for family in Family:
                    losses += copy_readable(source, target, family)
            finally:
                source.close()
        version = None if manifest is None else manifest[1]
        losses += replay_logs(path, state, version, target, is_whole_history=source is None)
        refuse_unknown_format(target.path, target.get(Family.META, FORMAT_KEY) or b"")
        write_format(target)
        batch = Batch()
        batch.put(Family.META, DIRECTORY_IDENTITY_KEY, identity.encode())
        target.write(batch)
        target.flush()
    finally:
        target.close()
    sync_directory(repair.fresh)
    moved = [file.name for file in engine_files(path)] + [name for name in (MARKER, SYNCED) if (path / name).exists()]
    repair = replace(repair, recorded=read_provenance(repair.fresh)[0])
    return repair.enter(Phase.MOVING_OUT, repair.losses + tuple(losses), tuple(moved))


def _check_origin(source: RocksEngine, marked: str | None) -> list[Loss]:
    """Return a loss if the sorted files belong to another directory. Errors: UnknownFormat."""
    try:
        version = source.get(Family.META, FORMAT_KEY)
        stored = source.get(Family.META, DIRECTORY_IDENTITY_KEY)
    except DataCorrupted:
        return []
    if version is not None:
        refuse_unknown_format(source.path, version)
    if marked is None or stored in (None, marked.encode()):
        return []
    return [Loss("the sorted files are those of another directory than the marker")]


def _whole_manifest(path: Path, state: Inspection) -> tuple[Path, Version] | None:
    """Return the newest intact MANIFEST and the state that it describes."""
    for file in manifests(path):
        version = read_manifest(file, state.mark)
        if isinstance(version, Version):
            return file, version
    return None


def _open_tables(
    path: Path, work: Path, state: Inspection, manifest: tuple[Path, Version] | None, losses: list[Loss]
) -> RocksEngine | None:
    """Return an engine over the sorted files alone, in a directory of links; None if none is readable."""
    tables = {file.name: file for file in engine_files(path) if file.suffix == ".sst"}
    if manifest is None:
        return _open_unlisted(work, tables, losses) if tables else None
    file, version = manifest
    listed = [
        ListedTable(number, family.name, table)
        for number, family in version.families.items()
        for table in family.files.values()
    ]
    missing = []
    for table in listed:
        present = tables.get(table.name)
        if present is None or present.stat().st_size != table.file.size:
            missing.append(table)
            losses.append(_table_loss(table, "is missing" if present is None else "has another size"))
        else:
            link(present, work / table.name)
    # A torn end is no part of the list, and nothing may follow it.
    content = file.read_bytes()
    content = content[: _whole_bytes(content)]
    try:
        engine, damaged = TableList(content, listed, state.kind is Kind.EARLIER).open(work, missing)
    except StorageError as error:
        raise StorageError(f"the database in {path} is beyond repair: {error}") from error
    losses += [_table_loss(table, "cannot be opened") for table in damaged]
    return engine


def _open_unlisted(work: Path, tables: dict[str, Path], losses: list[Loss]) -> RocksEngine:
    """Return an engine over all existing sorted files, with a MANIFEST that RocksDB rebuilds from them."""
    for file in tables.values():
        link(file, work / file.name)
    remake_file_list(str(work))
    losses.append(
        Loss(
            f"no list of files is whole, so it was made from the {len(tables)} sorted files that are there: documents "
            "may be missing, and older versions or removed ones may have come back"
        )
    )
    losses += [Loss(f"the file {name} cannot be read") for name in sorted(tables) if not (work / name).exists()]
    return RocksEngine(str(work), create=True)


def _whole_bytes(log: bytes) -> int:
    return max((record.end for record in read_records(log) if not isinstance(record, Gap)), default=0)


def _table_loss(table: ListedTable, why: str) -> Loss:
    """Return the loss of a sorted file."""
    LOG.warning("A sorted file is left out", file=table.name, family=table.family, reason=why)
    text = f"the file {table.name} {why} ({table.file.size} bytes of {table.family}): what it held is missing, or older"
    return Loss(text, table.family, table.file.smallest.hex(), table.file.largest.hex())
