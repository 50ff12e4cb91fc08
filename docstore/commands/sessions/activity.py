"""Activity of an open transaction, as currentOp and `$currentOp` report it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from bson.timestamp import Timestamp

if TYPE_CHECKING:
    from docstore.commands.client_connection import ClientConnection
    from docstore.commands.concerns import ReadConcern


@dataclass(slots=True)
class TransactionActivity:
    """Who uses an open transaction, and since when.

    `began`, `expires`, `prepared`: seconds of the process's monotonic clock; `expires` is infinite without a limit.
    `connection`: the one of its newest statement; None if another primary has executed the statements.
    `read_timestamp`: the packed timestamp of the snapshot; 0 if it is the newest state. `details`: further fields of
    the report.
    """

    lsid: bytes
    number: int
    began: float
    expires: float = math.inf
    connection: ClientConnection | None = None
    prepared: float | None = None
    read_timestamp: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    _read_concern: Mapping[str, Any] = field(default_factory=dict)
    _active_seconds: float = 0.0
    _active_since: float | None = None

    @property
    def is_active(self) -> bool:
        """True while a statement of the transaction is executed."""
        return self._active_since is not None

    def begin_statement(
        self, connection: ClientConnection, concern: ReadConcern, *, explicit: bool, now: float
    ) -> None:
        """Note a statement that begins; the first one has the transaction's read concern.

        `explicit`: the client has named the concern. `now`: seconds of the monotonic clock.
        """
        if not self._read_concern:
            provenance = "clientSupplied" if explicit else "implicitDefault"
            self._read_concern = {**concern.document(), "provenance": provenance}
        self.connection = connection
        self._active_since = now

    def end_statement(self, now: float) -> None:
        """Note the end of the running statement. `now`: seconds of the monotonic clock."""
        if self._active_since is not None:
            self._active_seconds += now - self._active_since
            self._active_since = None

    def document(self, now: float, wall: float) -> dict[str, Any]:
        """Return the report's `transaction`. `now`, `wall`: the monotonic clock, and seconds since 1970."""
        active = self._active_seconds + (0.0 if self._active_since is None else now - self._active_since)
        parameters: dict[str, Any] = {"txnNumber": Int64(self.number), "txnRetryCounter": 0, "autocommit": False}
        if self._read_concern:
            parameters["readConcern"] = self._read_concern
        document: dict[str, Any] = {
            "parameters": parameters,
            "readTimestamp": Timestamp(self.read_timestamp >> 32, self.read_timestamp & 0xFFFFFFFF),
            "startWallClockTime": _iso(wall - (now - self.began)),
            "timeOpenMicros": _micros(now - self.began),
            "timeActiveMicros": _micros(active),
            "timeInactiveMicros": _micros(now - self.began - active),
        }
        if self.prepared is not None:
            document["timePreparedMicros"] = _micros(now - self.prepared)
        elif self.expires != math.inf:
            document["expiryTime"] = _iso(wall + (self.expires - now))
        return {**document, **self.details}


def _micros(seconds: float) -> Int64:
    return Int64(max(int(seconds * 1_000_000), 0))


def _iso(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")
