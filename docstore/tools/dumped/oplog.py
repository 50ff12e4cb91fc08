"""The log of a replica set in a dump: what was written while the collections were read.

A dump with its log is restored to the state at its end: the collections may hold anything between its beginning and its
end, and each entry of the log says what it leaves behind, and not what it found.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import cast

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.collection import Collection

from docstore.tools.connection import Client
from docstore.tools.dumped.targets import Sink
from docstore.tools.terminal import ToolFailed

_LENGTH = struct.Struct("<i")


def newest_entry(client: Client) -> Timestamp:
    """The time of the newest entry. Errors: ToolFailed, PyMongoError."""
    newest = next(_entries(client).find({}, {"ts": 1}).sort("$natural", -1).limit(1), None)
    if newest is None:
        raise ToolFailed("the oplog is empty")
    time: Timestamp = newest["ts"]
    return time


def dump_oplog(client: Client, start: Timestamp, end: Timestamp, file: Sink) -> int:
    """Write the entries of a time, both ends included; gives how many.

    Errors: ToolFailed where the first is gone, or where collections were renamed.
    """
    count = 0
    batches = cast(Iterator[bytes], _entries(client).find_raw_batches({"ts": {"$gte": start, "$lte": end}}))
    for batch in batches:
        if not count and RawBSONDocument(batch[: _LENGTH.unpack_from(batch)[0]])["ts"] != start:
            raise ToolFailed("the oplog was too short for the time of the dump: its first entries are gone")
        file.write(batch)
        place = 0
        while place < len(batch):
            place += _LENGTH.unpack_from(batch, place)[0]
            count += 1
    renaming = {"op": "c", "o.renameCollection": {"$exists": True}, "ts": {"$gt": start, "$lte": end}}
    if next(_entries(client).find(renaming).limit(1), None) is not None:
        raise ToolFailed("a collection was renamed during the dump: which of its names holds what cannot be told")
    if not count:
        raise ToolFailed("the oplog was too short for the time of the dump: its entries are gone")
    return count


def _entries(client: Client) -> Collection[RawBSONDocument]:
    return client.get_database("local").get_collection("oplog.rs")
