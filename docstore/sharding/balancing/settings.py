"""The cluster-wide settings of splitting and balancing, from the documents of config.settings.

- `{_id: "chunksize", value: MB}`;
- `{_id: "balancer", stopped: bool, mode: "full" | "autoSplitOnly" | "off", activeWindow: {start: "HH:MM", stop:
  "HH:MM"}}`. A window whose stop is before its start includes midnight;
- `{_id: "autosplit", enabled: bool}`.

The config servers' primary evaluates them by its clock and in its time zone, as MongoDB's manual has it, so all routers
agree. A setting that cannot be read turns balancing off: `problem` says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.sharding.split import DEFAULT_CHUNK_BYTES, MIB

FULL, AUTO_SPLIT_ONLY, OFF = "full", "autoSplitOnly", "off"
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})")


class ActiveWindow(NamedTuple):
    """The seconds after midnight between which chunks are balanced."""

    start: int
    stop: int

    def contains(self, second: int) -> bool:
        """True at that second of the day."""
        if self.start < self.stop:
            return self.start <= second <= self.stop
        return second >= self.start or second <= self.stop


def parse_window(value: Any) -> ActiveWindow:
    """Return the window of a document. Errors: BadValue unless it has two different times."""
    ends = [_second(value.get(name)) if isinstance(value, Mapping) else None for name in ("start", "stop")]
    start, stop = ends
    if start is None or stop is None or start == stop:
        raise CommandError(Code.BadValue, "activeWindow must have a start and another stop, each 'HH:MM'")
    return ActiveWindow(start, stop)


def _second(value: Any) -> int | None:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    hour, minute = int(match[1]), int(match[2])
    return hour * 3600 + minute * 60 if hour < 24 and minute < 60 else None


@dataclass(frozen=True, slots=True)
class BalancingSettings:
    """The settings at one moment. `active`: chunks may be balanced now. Without documents the defaults apply."""

    mode: str = FULL
    active: bool = True
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    autosplit: bool = True
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Return the wire form."""
        return {
            "mode": self.mode,
            "active": self.active,
            "chunkBytes": Int64(self.chunk_bytes),
            "autosplit": self.autosplit,
            "problem": self.problem,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> BalancingSettings:
        return cls(
            document["mode"], document["active"], int(document["chunkBytes"]), document["autosplit"],
            document["problem"],
        )  # fmt: skip


def balancing_settings(documents: Mapping[str, Mapping[str, Any]], second: int) -> BalancingSettings:
    """Return the settings of config.settings' documents, by `_id`, at that second of the day."""
    balancer = documents.get("balancer", {})
    mode = balancer.get("mode", FULL)
    problem = ""
    if mode not in (FULL, AUTO_SPLIT_ONLY, OFF):
        mode, problem = OFF, "the balancer's mode is full, autoSplitOnly or off"
    if balancer.get("stopped", False):
        mode = OFF
    active = mode == FULL
    if "activeWindow" in balancer:
        try:
            active = active and parse_window(balancer["activeWindow"]).contains(second)
        except CommandError as error:
            active, problem = False, error.message
    megabytes = documents.get("chunksize", {}).get("value", DEFAULT_CHUNK_BYTES // MIB)
    if isinstance(megabytes, bool) or not isinstance(megabytes, int | float) or not 0 < megabytes < float("inf"):
        active, problem, megabytes = False, "chunksize is a number of megabytes", DEFAULT_CHUNK_BYTES // MIB
    return BalancingSettings(
        mode, active, max(int(megabytes * MIB), 1), bool(documents.get("autosplit", {}).get("enabled", True)), problem
    )
