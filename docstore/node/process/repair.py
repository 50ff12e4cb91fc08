"""`--repair`: make a database directory readable and consistent with its documents, report losses, and exit.

A member of a replica set that a repair has changed may lack writes that it acknowledged. It resyncs from the others
before it votes or serves again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from docstore.collection.catalog.recovery import recover_catalog
from docstore.collection.repair import Repaired, repair_collection
from docstore.collection.storage_mode import StorageMode
from docstore.collection.store import Store
from docstore.key_layout import FAMILY_PREFIX, IDENT_BYTES, ident_of
from docstore.log import component
from docstore.replicaset.local_state import LocalState
from docstore.storage import Engine, Family
from docstore.storage.lock import lock_directory
from docstore.storage.opening import open_locked, refuse_foreign
from docstore.storage.repairs import Loss, Phase, Repair, discard_repair, recorded_losses
from docstore.storage.salvage import salvage

LOG = component("STORAGE")


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """Result of a repair, a sentence each.

    `losses`: data that could not be saved, by this repair or by earlier ones whose records stand; `notes`: other news
    for operators.
    """

    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def repair(path: Path, mode: StorageMode | None) -> RepairOutcome:
    """Repair the directory, which no process may have open. Errors: DatabaseLocked, StorageError, OSError.

    An interrupted repair is resumed, and its earlier findings are reported too.
    """
    refuse_foreign(path)
    lock = lock_directory(str(path))
    try:
        earlier = recorded_losses(path)
        repaired = salvage(path)
        outcome = _check(path, repaired, mode)
    finally:
        os.close(lock)
    outcome = replace(outcome, losses=(*earlier, *outcome.losses))
    for loss in outcome.losses:
        LOG.error("The repair could not save everything", path=str(path), loss=loss)
    return outcome


def _check(path: Path, repaired: Repair, mode: StorageMode | None) -> RepairOutcome:
    """Make collections and indexes consistent with the records, and finish the repair."""
    journal = _LossJournal(repaired)
    engine = open_locked(path)
    try:
        store, collections = mend_store(engine, mode, journal.note)
        # An interrupted repair has lost the record of what it corrected here.
        is_changed = repaired.is_resumed or bool(repaired.reason or journal.losses)
        is_changed |= any(not collection.was_valid for collection in collections)
        notes = _notes(repaired, collections)
        if is_changed and is_member(store, journal.losses):
            require_copy(store)
            notes.append("this member of a replica set copies the data of the others before it votes or serves again")
        engine.flush()
        texts = tuple(_describe(loss, store) for loss in journal.losses)
    finally:
        engine.close()
    if repaired.reason or texts:
        repaired.enter(Phase.DONE, tuple(map(Loss, texts)))
    else:
        discard_repair(repaired)
    return RepairOutcome(texts, tuple(notes))


def mend_store(
    engine: Engine, mode: StorageMode | None, note: Callable[[list[str]], None]
) -> tuple[Store, list[Repaired]]:
    """Complete the catalog, and make indexes and counters agree with the records; `note` receives losses beforehand."""
    recover_catalog(engine, note)
    store = Store(engine, clock=time.time, mode=mode)

    def note_removed(ns: str, removed: list[str]) -> None:
        note([f"{ns}: {text}" for text in removed])

    collections = [
        repair_collection(store, store.catalog.collections[ns], partial(note_removed, ns))
        for ns in sorted(store.namespaces())
    ]
    return store, collections


def require_copy(store: Store) -> None:
    """Make a member resync when it starts; until then it holds no data and does not vote."""
    LocalState(store).write_initial_sync(True)


class _LossJournal:
    """Losses of a repair. Each is recorded in the repair's journal before anything is changed."""

    def __init__(self, repaired: Repair) -> None:
        self._repaired = repaired
        self._all = repaired.losses

    @property
    def losses(self) -> list[Loss]:
        """The losses, without those of indexes, which were rebuilt from the documents."""
        return [loss for loss in self._all if loss.family != Family.INDEXES.name.lower()]

    def note(self, texts: list[str]) -> None:
        fresh = tuple(loss for loss in map(Loss, texts) if loss not in self._all)
        if fresh:
            self._all += fresh
            self._repaired.enter(Phase.CHECKING, self._all)


def _notes(repaired: Repair, collections: Iterable[Repaired]) -> list[str]:
    notes = []
    if repaired.reason:
        notes.append(f"damage was found: {repaired.reason}")
    if repaired.damaged.exists():
        notes.append(f"the damaged files are kept in {repaired.damaged}")
    for collection in collections:
        LOG.info(
            "Collection repaired", ns=collection.ns, documents=collection.count, indexEntries=collection.entries,
            wasValid=collection.was_valid, removed=collection.removed[:100],
        )  # fmt: skip
        if not collection.was_valid:
            notes.append(f"indexes and counters of {collection.ns} were made anew")
    return notes


def _describe(loss: Loss, store: Store) -> str:
    """Return the sentence about a loss, with the collections that it may concern."""
    if loss.family in ("", "oplog", "undo", "meta"):
        return loss.text
    prefix = len(FAMILY_PREFIX) if loss.family == Family.WIDE.name.lower() else 0
    start, end = (bytes.fromhex(key)[prefix:].ljust(IDENT_BYTES, b"\0") for key in (loss.start, loss.end))
    idents = range(ident_of(start), ident_of(end) + 1)
    names = sorted(coll.ns for coll in store.catalog.collections.values() if coll.ident in idents)
    return f"{loss.text}, of {', '.join(names) or 'a collection that is not there any more'}"


def is_member(store: Store, losses: Iterable[Loss]) -> bool:
    """Return True if the data belong, or belonged, to a member of a replica set."""
    if any(loss.family == Family.OPLOG.name.lower() for loss in losses):
        return True
    if next(iter(store.engine.keys(Family.OPLOG, b"", b"\xff" * 8)), None) is not None:
        return True
    return any(ns.startswith("local.replset.") or ns == "local.system.replset" for ns in store.namespaces())
