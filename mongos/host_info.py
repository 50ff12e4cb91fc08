"""Facts about the host that do not change while a router runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HostInfo:
    """`address`: "host:port" that it listens on. `started`: on the monotonic clock."""

    address: str
    hostname: str
    started: float
    argv: tuple[str, ...]
    parsed: Mapping[str, Any]
