"""Cluster-wide default read and write concerns, read from the set's own documents.

The documents replicate like any other. They are cached until `config.settings` changes.
"""

from __future__ import annotations

from typing import Any

import bson
from bson.datetime_ms import DatetimeMS

from docstore.bson import document_to_python, from_python
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.concerns import WriteConcern, parse_write_concern
from docstore.errors import CommandError
from docstore.namespace import SETTINGS_NS
from docstore.optime import unpack_timestamp

DOCUMENT_ID = "ReadWriteConcernDefaults"


class ConcernDefaults:
    """The defaults as known to one member."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._generation = -1
        self._document: dict[str, Any] = {}
        self._write: WriteConcern | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The stored document; empty if no default is set."""
        self._refresh()
        return self._document

    @property
    def write(self) -> WriteConcern | None:
        """The default write concern, or None if none is set."""
        self._refresh()
        return self._write

    def _refresh(self) -> None:
        generation = self._store.security_changes + self._store.catalog.security_changes
        if generation == self._generation:
            return
        self._generation = generation
        settings = self._store.collection(SETTINGS_NS)
        stored = None if settings is None else settings.by_id(self._store.engine, from_python(DOCUMENT_ID))
        self._document = {} if stored is None else document_to_python(stored[1])
        concern = self._document.get("defaultWriteConcern")
        try:
            self._write = None if concern is None else parse_write_concern(*from_python(concern))
        except CommandError:
            self._write = None  # invalid: clients with the privilege may write to that collection

    def update(self, unit: WriteUnitOfWork, changes: dict[str, Any], now: DatetimeMS) -> None:
        """Set some of the defaults; None removes one."""
        settings = self._store.collection(SETTINGS_NS) or self._store.create_collection(unit, SETTINGS_NS)
        names = ("defaultReadConcern", "defaultWriteConcern")
        merged = {name: {**self.document, **changes}.get(name) for name in names}
        fields = {name: value for name, value in merged.items() if value is not None}
        time = unpack_timestamp(self._store.last_optime.timestamp)
        raw = bson.encode({"_id": DOCUMENT_ID, **fields, "updateOpTime": time, "updateWallClockTime": now})
        stored = settings.by_id(unit, from_python(DOCUMENT_ID))
        if stored is None:
            unit.insert(settings, raw)
        else:
            unit.replace(settings, *stored, raw)
