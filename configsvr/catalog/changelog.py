"""config.changelog: a log of changes of the metadata, for operators and `sh.status()`. Nothing depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.objectid import ObjectId

from configsvr.catalog.records import CHANGELOG, date_of
from configsvr.catalog.tables import Tables

MAX_ENTRIES = 20_000
_REMOVED_AT_ONCE = 500


class Changelog:
    """Appends entries; the oldest go when there are too many."""

    def __init__(self, tables: Tables, server: str) -> None:
        self._tables = tables
        self._server = server

    def add(
        self,
        event: str,
        namespace: str,
        details: Mapping[str, Any],
        *,
        server: str = "",
        shard: str = "config",
        client: str = "",
    ) -> None:
        """Add an entry. `event`: split, multi-split, moveChunk.start, ...; `server`: this one by default."""
        tables = self._tables
        collection = tables.store.collection(CHANGELOG)
        if collection is None:
            return
        host = server or self._server
        entry = {
            "_id": f"{host}-{date_of(tables.now_ms()).isoformat()}-{ObjectId()}",
            "server": host,
            "shard": shard,
            "clientAddr": client,
            "time": date_of(tables.now_ms()),
            "what": event,
            "ns": namespace,
            "details": dict(details),
        }
        with tables.store.unit() as unit:
            tables.upsert(unit, CHANGELOG, entry)
            unit.commit()
        if collection.count > MAX_ENTRIES:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        collection = self._tables.store.collection(CHANGELOG)
        assert collection is not None, "entries have just been counted"
        records = collection.records(self._tables.store.engine)
        oldest = [record for record, _ in zip(records, range(_REMOVED_AT_ONCE), strict=False)]
        with self._tables.store.unit() as unit:
            for record_id, raw in oldest:
                unit.remove(collection, record_id, raw)
            unit.commit()
