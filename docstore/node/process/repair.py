"""`--repair`: make a database directory readable and consistent with its documents, and exit."""

from __future__ import annotations

import time
from pathlib import Path

from docstore.collection.repair import Repaired, repair_collection
from docstore.collection.storage_mode import StorageMode
from docstore.collection.store import Store
from docstore.log import component
from docstore.storage import open_engine
from docstore.storage.salvage import salvage

LOG = component("STORAGE")


def repair(path: Path, mode: StorageMode | None) -> list[Repaired]:
    """Repair the directory, which no process may have open. Errors: DatabaseLocked, StorageError."""
    lost = salvage(path)
    if lost:
        LOG.warning("Damaged blocks were left out; the damaged files are kept", gaps=lost, path=str(path))
    engine = open_engine("rocksdb", str(path))
    try:
        store = Store(engine, clock=time.time, mode=mode)
        repaired = [repair_collection(store, store.catalog.collections[ns]) for ns in sorted(store.namespaces())]
        engine.flush()
    finally:
        engine.close()
    for each in repaired:
        LOG.info(
            "Collection repaired", ns=each.ns, documents=each.count, indexEntries=each.entries, wasValid=each.was_valid,
            removed=each.removed[:100],
        )  # fmt: skip
    if lost or any(each.removed or not each.was_valid for each in repaired):
        LOG.warning("The data has been changed by the repair; a member of a replica set should be synchronized anew")
    return repaired
