"""The point of a backup: the cluster time whose state it holds, and the log entries that lead to it.

Every primary has been told the time, so later writes anywhere get a later time, and a majority of each set holds all
writes up to it. Once a member has reached it, its log up to the time is complete and will not be rolled back.
Everything acknowledged before the checkpoints were created is at or before it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, NamedTuple

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure

from docstore.backup.access import Access, Client
from docstore.backup.failures import Diverged
from docstore.backup.sources import Source
from docstore.optime import OpTime, pack_timestamp, unpack_timestamp
from docstore.tools.connection import RAW
from docstore.tools.read_concerns import after_time
from docstore.tools.terminal import ToolFailed

_LENGTH = struct.Struct("<i")
_SECONDS = 60.0
_RETRY_SECONDS = 0.2
_CAPPED_POSITION_LOST = 136


class Point(NamedTuple):
    """The time, and a `$clusterTime` at or after it, as signed by a server."""

    time: Timestamp
    cluster_time: Mapping[str, Any]


def latest(access: Access, source: Source) -> Point:
    """Return the end of the primary's log: all that it has acknowledged is at or before it."""
    assert source.set_name is not None, "a node of its own has no log"
    hello = access.replica_set(source.set_name, source.addresses).admin.command("hello")
    return Point(hello["lastWrite"]["opTime"]["ts"], hello["$clusterTime"])


def reach(access: Access, source: Source, point: Point) -> None:
    """Return once the primary can write nothing at `point` or before. Errors: ToolFailed, PyMongoError."""
    assert source.set_name is not None, "a node of its own has no log"
    until = monotonic() + _SECONDS
    client = access.replica_set(source.set_name, source.addresses)
    while True:
        try:
            _wait_for(client, point)
            return
        except (AutoReconnect, NotPrimaryError) as error:
            if monotonic() > until:
                raise ToolFailed(f"{source.set_name} has no primary: {error}") from error
            sleep(_RETRY_SECONDS)


def wait_for_member(client: Client, point: Point) -> None:
    """Return when a member, and the majority, holds everything up to `point`."""
    _wait_for(client, point)


def _wait_for(client: Client, point: Point) -> None:
    with _informed_session(client, point) as session:
        collection = client["local"]["oplog.rs"].with_options(read_concern=after_time(point.time))
        newest = {"ts": {"$gte": point.time}}
        collection.find_one(newest, {"ts": 1}, session=session, max_time_ms=int(_SECONDS * 1000))


@contextmanager
def _informed_session(client: Client, point: Point) -> Iterator[ClientSession]:
    """Return a session that tells the server the time."""
    with client.start_session(causal_consistency=False) as session:
        session.advance_cluster_time(point.cluster_time)
        yield session


class SpanReading:
    """The entries of a member's log from `start` to `point`, as raw batches; their totals once all have been read."""

    def __init__(self, client: Client, start: OpTime, point: Point, required_entries: Iterable[OpTime]) -> None:
        """`required_entries`: entries that must be among them."""
        self._client = client
        self.start = start
        self._point = point
        self._missing = set(required_entries)
        self.entries = 0
        self.end = start

    def _log(self) -> Any:
        return self._client["local"].get_collection("oplog.rs", codec_options=RAW)

    @property
    def begins(self) -> bool:
        """True if the log still has the entry with which the span begins."""
        entry = self._log().find_one({"ts": unpack_timestamp(self.start.timestamp)}, {"ts": 1, "t": 1})
        return entry is not None and _optime(entry) == self.start

    def batches(self, progress: Callable[[int], None]) -> Iterator[bytes]:
        """Yield the batches. Errors: Diverged if the log does not begin at `start`, or lacks a wanted entry;
        PyMongoError.
        """
        with _informed_session(self._client, self._point) as session:
            concern = after_time(self._point.time)
            start = unpack_timestamp(self.start.timestamp)
            cursor = (
                self._log()
                .with_options(read_concern=concern)
                .find_raw_batches({"ts": {"$gte": start, "$lte": self._point.time}}, session=session)
            )
            try:
                for batch in cursor:
                    self._look(batch)
                    progress(self.entries)
                    yield batch
            except OperationFailure as error:
                if error.code != _CAPPED_POSITION_LOST:
                    raise
                raise Diverged("the log was cut, or entries were taken back, while it was read") from error
        if self._missing or not self.entries:
            raise Diverged("the log has not all that the checkpoint was made of: it was taken back, or has gone")

    def _look(self, batch: bytes) -> None:
        offset = 0
        while offset < len(batch):
            end = offset + _LENGTH.unpack_from(batch, offset)[0]
            self.end = _optime(RawBSONDocument(batch[offset:end]))
            if not self.entries and self.end != self.start:
                raise Diverged(f"the log begins at {self.end} and not at {self.start}: it was cut before it was read")
            self._missing.discard(self.end)
            self.entries += 1
            offset = end


def _optime(entry: Any) -> OpTime:
    return OpTime(int(entry.get("t", -1)), pack_timestamp(entry["ts"]))
