"""The log of a replica set in a dump: the writes made while the collections were read.

A dump with its log is restored to the state at its end. The collections may have any state between its beginning and
its end, because each entry of the log gives its result, not a change. That requires that everything comes from one
member that does not roll back meanwhile: documents and entries of two members, or from before and after a rollback,
have no state in common.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo import ReadPreference
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from docstore.tools.connection import Client
from docstore.tools.dumped.targets import Sink
from docstore.tools.read_concerns import after_time
from docstore.tools.terminal import Terminal, ToolFailed

_LENGTH = struct.Struct("<i")
_CATCH_UP_MS = 60_000
_UNAUTHORIZED = 13


class Entry(NamedTuple):
    """An entry of a log: its time, and the term of the primary that wrote it."""

    time: Timestamp
    term: int


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a server at present: its address, its process, and the number of its rollbacks."""

    address: str
    process: Any
    rollbacks: int | None


class LogReading:
    """The log of one member, from the newest entry at the beginning of a dump on."""

    def __init__(self, client: Client, latest: Mapping[str, Any] | None, terminal: Terminal) -> None:
        """`client`: of that member alone. `latest`: the primary's answer to `hello`, if it is another member, whose
        acknowledged writes the dump must contain. Errors: ToolFailed, PyMongoError.
        """
        self._client = client
        self._latest = latest
        self._identity = _identity_of(client)
        if self._identity.rollbacks is None:
            terminal.say("the server does not tell how often it has rolled back: a rollback meanwhile is not noticed")
        self._start = self._newest()

    def write(self, file: Sink) -> int:
        """Write the entries up to now; return how many.

        Errors: ToolFailed if the log was truncated or rolled back since the beginning, if collections were renamed,
        or if the member is not the same any more.
        """
        self._catch_up()
        end = self._newest()
        start = self._begin_of_transactions(end)
        count = 0
        last = None
        query = {"ts": {"$gte": start.time, "$lte": end.time}}
        for batch in cast(Iterator[bytes], self._log.find_raw_batches(query)):
            offset = 0
            while offset < len(batch):
                stop = offset + _LENGTH.unpack_from(batch, offset)[0]
                if last is None or stop == len(batch):
                    last = _entry(RawBSONDocument(batch[offset:stop]))
                if not count and last != start:
                    raise ToolFailed("the oplog was too short for the time of the dump: its first entries are gone")
                count += 1
                offset = stop
            file.write(batch)
        if last != end:
            raise ToolFailed("the oplog was too short for the time of the dump, or entries of it were taken back")
        self._check_names(end)
        self.check_member()
        return count

    def check_member(self) -> None:
        """Errors: ToolFailed where the member has rolled back or was restarted, or another one answers."""
        now = _identity_of(self._client)
        if now != self._identity:
            raise ToolFailed(
                f"the member that is dumped is not as it was: {self._identity.address} has rolled back, was restarted "
                "or is another server now; the dump is of no use"
            )

    def _begin_of_transactions(self, end: Entry) -> Entry:
        """Return the first entry of the oldest transaction that continues after the beginning; else the beginning.

        A log that begins earlier leads to the same state, but one that lacks a part of a transaction does not.
        """
        start = self._start
        while True:
            earlier = self._log.find(
                {
                    "op": "c",
                    "txnNumber": {"$exists": True},
                    "ts": {"$gte": start.time, "$lte": end.time},
                    "prevOpTime.ts": {"$gt": Timestamp(0, 0), "$lt": start.time},
                },
                {"prevOpTime": 1},
            )
            earliest = min((_entry(document["prevOpTime"]) for document in earlier), default=None)
            if earliest is None:
                return start
            start = earliest

    def _check_names(self, end: Entry) -> None:
        times = {"$gt": self._start.time, "$lte": end.time}
        renaming = {"op": "c", "o.renameCollection": {"$exists": True}, "ts": times}
        if next(self._log.find(renaming).limit(1), None) is not None:
            raise ToolFailed("a collection was renamed during the dump: which of its names holds what cannot be told")

    def _catch_up(self) -> None:
        """Wait until the member has all that the primary had at the beginning. Errors: ToolFailed, PyMongoError."""
        if self._latest is None:
            return
        time = self._latest["lastWrite"]["opTime"]["ts"]
        with self._client.start_session(causal_consistency=False) as session:
            if "$clusterTime" in self._latest:
                session.advance_cluster_time(self._latest["$clusterTime"])
            log = self._log.with_options(read_concern=after_time(time))
            log.find_one({"ts": {"$gte": time}}, {"ts": 1}, session=session, max_time_ms=_CATCH_UP_MS)
        if self._newest().time < time:
            raise ToolFailed(f"{self._identity.address} has not all that the primary had when the dump began")

    def _newest(self) -> Entry:
        newest = next(self._log.find({}, {"ts": 1, "t": 1}).sort("$natural", -1).limit(1), None)
        if newest is None:
            raise ToolFailed("the oplog is empty")
        return _entry(newest)

    @property
    def _log(self) -> Collection[RawBSONDocument]:
        return self._client.get_database("local").get_collection("oplog.rs")


def latest_of(client: Client, hello: Mapping[str, Any], terminal: Terminal) -> Mapping[str, Any] | None:
    """The primary's answer to `hello`; None where the member that answered is the primary, or there is none.

    Errors: PyMongoError.
    """
    if hello.get("isWritablePrimary"):
        return None
    try:
        answer: Mapping[str, Any] = client.admin.command("hello", read_preference=ReadPreference.PRIMARY)
    except ServerSelectionTimeoutError:
        answer = hello
    if not answer.get("isWritablePrimary"):
        terminal.say("there is no primary to ask: what it has acknowledged last may be missing")
        return None
    return answer


def _identity_of(client: Client) -> Identity:
    hello = client.admin.command("hello")
    version = hello.get("topologyVersion")
    process = None if version is None else version["processId"]
    return Identity(str(hello.get("me")), process, _rollbacks_of(client))


def _rollbacks_of(client: Client) -> int | None:
    try:
        status = client.admin.command("serverStatus")
    except OperationFailure as error:
        if error.code != _UNAUTHORIZED:
            raise
        return None
    count: int | None = status["repl"].get("rbid")
    return count


def _entry(document: Mapping[str, Any]) -> Entry:
    return Entry(document["ts"], int(document.get("t", -1)))
