"""Leases: one holder at a time, judged by the clock of the config servers' primary.

Always true: `fence` grows with each new holder and never falls, not even by a release or an expiry; a holder that
renews with another fence than it was granted is refused. After a failover the new primary's clock judges; a lease
that it grants too early costs its old holder nothing but a refused renewal.
"""

from __future__ import annotations

from dataclasses import replace

from configsvr.catalog.records import LOCKS, LeaseRecord
from configsvr.catalog.tables import Tables
from docstore.errors import Code, CommandError

DEFAULT_TTL_MS = 30_000


class Leases:
    """The lease records of the catalog."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def current(self, name: str) -> LeaseRecord | None:
        """The record, held or not."""
        raw = self._tables.document(LOCKS, name)
        return None if raw is None else LeaseRecord.from_raw(raw)

    def change(
        self, name: str, action: str, holder: str, fence: int, ttl_ms: int, why: str
    ) -> tuple[bool, LeaseRecord]:
        """(whether it was granted, who has it now). FailedToParse for an unknown action."""
        now = self._tables.now_ms()
        record = self.current(name) or LeaseRecord(
            name=name, holder="", fence=0, granted_ms=now, expires_ms=now, why=why
        )
        ours = record.is_held(now) and record.holder == holder
        if action == "acquire":
            granted = ours or not record.is_held(now)
            if granted:
                record = replace(
                    record,
                    holder=holder,
                    fence=record.fence if ours else record.fence + 1,
                    granted_ms=record.granted_ms if ours else now,
                    expires_ms=now + ttl_ms,
                    why=why,
                )
        elif action == "renew":
            granted = ours and record.fence == fence
            if granted:
                record = replace(record, expires_ms=now + ttl_ms)
        elif action == "release":
            granted = ours and record.fence == fence
            if granted:
                record = replace(record, holder="", expires_ms=now)
        else:
            raise CommandError(Code.FailedToParse, f"a lease is acquired, renewed or released, not '{action}'")
        if granted:
            with self._tables.store.unit() as unit:
                self._tables.upsert(unit, LOCKS, record.document())
                unit.commit()
        return granted, record
