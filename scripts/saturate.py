"""What one small operation costs the server that carries it out: on a standalone, on a set's primary, on a shard.

Many connections send prepared OP_MSG frames, each the next as soon as the reply to the one before is there, so that the
server is never idle and what is measured is its work. The frames are what each server is sent in earnest: a standalone
gets what a driver sends it, the primary of a set a retryable write besides, and a shard what a router makes of that,
with statement ids and the version it was routed by. The figure is the processor time that the server's threads took for
an operation, in microseconds. The ratios are to the reference, where there is one (above 1: it takes more than ours),
and of our own servers to the primary of a set.
"""

from __future__ import annotations

import math
import selectors
import socket
import statistics
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bson
import pymongo
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.commands.client_connection import PROCESS_DRIVER
from scripts.cluster import initiate
from scripts.deployment import Deployment, Member, replica_set, stopped_at_end
from scripts.measuring import processor_seconds
from scripts.reference import REFERENCE_SET

CONNECTIONS = 32
COUNT = 6400
"""Operations a round."""
NAMESPACE = "bench.posts"
_HEAD = struct.Struct("<iiiiI")
_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_OP_MSG = 2013
_FIELDS_AT = _HEAD.size + 1 + 4
_ONE_WRITTEN = b"\x10n\0\1\0\0\0"
_READ = b"\x03cursor\0"
_CURSOR = b"\x12id\0"
_MODIFIED = b"\x03lastErrorObject\0"
_COUNTED = b"\x10n\0"
_VALUES = b"\x04values\0"
_OK = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f"


class Request(NamedTuple):
    """A command and the documents that it is sent with, under the name of their sequence."""

    command: dict[str, Any]
    sequence: str = ""
    documents: tuple[dict[str, Any], ...] = ()


Concern = dict[str, Any]
Operation = Callable[[int], Request]


GROUP = 10
"""Documents that have one value of `g`; in such a group `n` is the order."""
INDEXES = ({"key": {"n": 1}, "name": "n"}, {"key": {"g": 1, "n": -1}, "name": "g_n"})


def document(number: int) -> dict[str, Any]:
    """About 100 bytes."""
    return {"_id": number, "id": str(number), "content": "data for content", "n": number, "g": number // GROUP}


def insert(number: int) -> Request:
    return Request({"insert": "posts", "ordered": True}, "documents", (document(number),))


def find(number: int) -> Request:
    return Request({"find": "posts", "filter": {"_id": number}, "limit": 1, "singleBatch": True})


def update(number: int) -> Request:
    statement = {"q": {"_id": number}, "u": {"$inc": {"hits": 1}}, "multi": False, "upsert": False}
    return Request({"update": "posts", "ordered": True}, "updates", (statement,))


def delete(number: int) -> Request:
    return Request({"delete": "posts", "ordered": True}, "deletes", ({"q": {"_id": number}, "limit": 1},))


def read(condition: Callable[[int], dict[str, Any]], **fields: Any) -> Operation:
    """A find of the documents that satisfy a condition."""
    return lambda number: Request({"find": "posts", "filter": condition(number), **fields})


def change(condition: Callable[[int], dict[str, Any]], update: dict[str, Any], **fields: Any) -> Operation:
    """An update of one document that satisfies a condition."""
    return lambda number: Request(
        {"update": "posts", "ordered": True},
        "updates",
        ({"q": condition(number), "u": update, "multi": False, **fields},),
    )


def several(condition: Callable[[int], dict[str, Any]], update: dict[str, Any]) -> Operation:
    """A command of ten updates, each of one document."""
    return lambda number: Request(
        {"update": "posts", "ordered": True},
        "updates",
        tuple({"q": condition((number + 31 * step) % COUNT), "u": update, "multi": False} for step in range(GROUP)),
    )


def aggregate(condition: Callable[[int], dict[str, Any]], *stages: dict[str, Any]) -> Operation:
    """A pipeline over the documents that satisfy a condition."""
    return lambda number: Request(
        {"aggregate": "posts", "pipeline": [{"$match": condition(number)}, *stages], "cursor": {}}
    )


def by_key(number: int) -> dict[str, Any]:
    return {"n": number}


def of_group(number: int) -> dict[str, Any]:
    return {"g": number // GROUP}


def in_range(number: int) -> dict[str, Any]:
    return {"n": {"$gte": number, "$lt": number + 20}}


def some(count: int) -> Operation:
    """A find of so many documents; what a first batch does not hold is asked for at once."""
    return lambda number: Request(
        {"find": "posts", "filter": {"n": {"$gte": number % (COUNT - count), "$lt": number % (COUNT - count) + count}}}
    )


def by_ids(number: int) -> dict[str, Any]:
    return {"_id": {"$in": [(number + 31 * step) % COUNT for step in range(GROUP)]}}


OPERATIONS: dict[str, Operation] = {
    "insert": insert,
    "find": find,
    "find by key": read(by_key, limit=1, singleBatch=True),
    "find range of 20": read(in_range),
    "find sorted, limit": read(of_group, sort={"n": -1}, limit=5, singleBatch=True),
    "find projected": read(of_group, projection={"id": 1}),
    "find 10 by $in": read(by_ids),
    "find 500": some(500),
    "find _id and more": read(lambda number: {"_id": number, "n": number}, limit=1, singleBatch=True),
    "find of an $or": read(lambda number: {"$or": [{"n": number}, {"g": number // GROUP, "n": 0}]}),
    "count by key": lambda number: Request({"count": "posts", "query": of_group(number)}),
    "countDocuments": aggregate(of_group, {"$group": {"_id": 1, "n": {"$sum": 1}}}),
    "$group of 10": aggregate(of_group, {"$group": {"_id": "$g", "n": {"$sum": "$n"}}}),
    "$lookup of one": aggregate(
        by_key, {"$lookup": {"from": "posts", "localField": "g", "foreignField": "_id", "as": "first"}}
    ),
    "$lookup of 10": aggregate(
        of_group, {"$lookup": {"from": "posts", "localField": "n", "foreignField": "n", "as": "same"}}
    ),
    "distinct of 10": lambda number: Request({"distinct": "posts", "key": "n", "query": of_group(number)}),
    "update": update,
    "update by key": change(by_key, {"$set": {"seen": [1]}, "$inc": {"hits": 1}}),
    "nested by key": change(by_key, {"$set": {"last.place.name": "here"}, "$inc": {"last.count": 1}}),
    "upsert by key": change(by_key, {"$inc": {"hits": 1}}, upsert=True),
    "upsert, inserting": change(
        lambda number: {"_id": f"new{number}{time.perf_counter()}"}, {"$set": {"content": "data"}}, upsert=True
    ),
    "updateMany of 10": change(of_group, {"$inc": {"hits": 1}}, multi=True),
    "10 updates by key": several(by_key, {"$inc": {"hits": 1}}),
    "$push by _id": change(lambda number: {"_id": number}, {"$push": {"seen": {"$each": [2], "$slice": -3}}}),
    "findAndModify by key": lambda number: Request(
        {"findAndModify": "posts", "query": by_key(number), "update": {"$inc": {"hits": 1}}}
    ),
    "delete": delete,
}
"""In this order: each works on the documents that the insert has left."""


@dataclass(slots=True)
class Server:
    """One server to be measured. `version`: what a router adds to each request, where it is a shard."""

    name: str
    member: Member
    replicated: bool = True
    ours: bool = True
    version: dict[str, Any] | None = None
    transactions: int = 0

    def frame(self, request: Request, lsid: dict[str, Any], concern: Concern | None) -> bytes:
        """The request as this server is sent it."""
        command = {**request.command, "lsid": lsid}
        if concern is not None and request.sequence:
            command["writeConcern"] = concern
        if self.replicated:
            self.transactions += 1
            signature = {"hash": Binary(bytes(20)), "keyId": Int64(0)}
            command["$clusterTime"] = {"clusterTime": Timestamp(1, self.transactions), "signature": signature}
            many = any(document.get("multi") for document in request.documents)
            if (request.sequence and not many) or "findAndModify" in command:
                command["txnNumber"] = Int64(self.transactions)
        if self.version is not None:
            # A router asks for its own batches, and names the statements that it passes on.
            command.pop("singleBatch", None)
            if request.sequence:
                command["stmtIds"] = list(range(len(request.documents)))
            command["shardVersion"] = self.version
            others = {
                stage["$lookup"]["from"]: self.version for stage in command.get("pipeline", ()) if "$lookup" in stage
            }
            if others:
                command["otherVersions"] = others
        return framed(Request({**command, "$db": "bench"}, *request[1:]))

    def more(self, cursor: int, lsid: dict[str, Any]) -> bytes:
        """The request for all that is behind a first batch."""
        return self.frame(Request({"getMore": Int64(cursor), "collection": "posts"}), lsid, None)


def framed(request: Request) -> bytes:
    """An OP_MSG of the request."""
    sections = b"\0" + bson.encode(request.command)
    if request.sequence:
        content = request.sequence.encode() + b"\0" + b"".join(bson.encode(document) for document in request.documents)
        sections += b"\1" + _INT.pack(len(content) + 4) + content
    return _HEAD.pack(_HEAD.size + len(sections), 1, 0, _OP_MSG, 0) + sections


class Client:
    """One connection that has frames to send, and makes one that asks for what is `more` behind a cursor.

    `refused` holds the first reply that was no success.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames: Iterator[bytes] = iter(())
        self.more: Callable[[int], bytes] | None = None
        self.refused: dict[str, Any] | None = None
        self._received = b""

    def greet_as_router(self) -> None:
        """Say what a router says of itself; only processes of the cluster may send internal parameters."""
        driver = {"driver": {"name": PROCESS_DRIVER, "version": "1"}, "os": {"type": "Linux"}}
        self.socket.sendall(framed(Request({"hello": 1, "client": driver, "$db": "admin"})))
        while not self.receive():
            pass
        # It is no reply of an operation.
        self.refused = None

    def send_next(self) -> bool:
        """Send the next frame; False when there is none left."""
        frame = next(self.frames, None)
        if frame is not None:
            self.socket.sendall(frame)
        return frame is not None

    def receive(self) -> bool:
        """Take in what has come; whether it makes a whole reply, behind which there is no more."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._received += data
        if len(self._received) < 4 or len(self._received) < _INT.unpack_from(self._received)[0]:
            return False
        if self.refused is None and not _succeeded(self._received):
            self.refused = bson.decode(self._received[21:])
        cursor = _cursor_of(self._received)
        self._received = b""
        if cursor and self.more is not None:
            self.socket.sendall(self.more(cursor))
            return False
        return True


def _cursor_of(reply: bytes) -> int:
    """The cursor that is open behind a batch; 0 for none."""
    if not reply.startswith(_READ, _FIELDS_AT):
        return 0
    at = reply.rfind(_CURSOR)
    return 0 if at < 0 else _LONG.unpack_from(reply, at + len(_CURSOR))[0]


def _succeeded(reply: bytes) -> bool:
    return _OK in reply and (
        reply.startswith((_ONE_WRITTEN, _READ, _MODIFIED, _COUNTED, _VALUES), _FIELDS_AT)
        and b"writeErrors" not in reply
    )


def saturate(clients: list[Client]) -> None:
    """Send all frames of all clients; each has one request under way."""
    with selectors.DefaultSelector() as selector:
        waiting = 0
        for client in clients:
            if client.send_next():
                selector.register(client.socket, selectors.EVENT_READ, client)
                waiting += 1
        while waiting:
            for key, _ in selector.select():
                if key.data.receive() and not key.data.send_next():
                    selector.unregister(key.fileobj)
                    waiting -= 1
    for client in clients:
        if client.refused is not None:
            raise RuntimeError(f"the server refused: {client.refused}")


def measure(server: Server, operation: Operation, concern: Concern | None, count: int) -> tuple[float, float]:
    """(processor microseconds an operation, operations a second)."""
    with ExitStack() as stack:
        clients = [Client(server.member.address) for _ in range(min(CONNECTIONS, count))]
        for position, client in enumerate(clients):
            stack.enter_context(closing(client.socket))
            if server.version is not None:
                client.greet_as_router()
            lsid = {"id": Binary(uuid.uuid4().bytes, 4)}
            client.more = partial(server.more, lsid=lsid)
            client.frames = iter(
                [server.frame(operation(number), lsid, concern) for number in range(position, count, len(clients))]
            )
        spent = processor_seconds(server.member.pid)
        began = time.perf_counter()
        saturate(clients)
        seconds = time.perf_counter() - began
        return (processor_seconds(server.member.pid) - spent) / count * 1e6, count / seconds


def start(deployment: Deployment, references: Sequence[Member]) -> list[Server]:
    """A standalone, a set of one member, and a cluster of one shard with a sharded collection; and the references, a
    standalone and a set.
    """
    standalone, member = Member("standalone", "mongod", []), Member("set-0", "mongod", ["--replSet", "set"])
    config, (shard,) = Member("config-0", "configsvr", []), replica_set("shard", 1, [])
    deployment.start(standalone, member, config, shard)
    router = Member("router-0", "mongos", ["--configdb", config.address])
    deployment.start(router)
    initiate("set", [member])
    initiate("shard", [shard])
    with closing(pymongo.MongoClient(router.address)) as client:
        client.admin.command("addShard", f"shard/{shard.address}", name="shard")
        client.admin.command("enableSharding", "bench")
        client.admin.command("shardCollection", NAMESPACE, key={"_id": 1})
        client.bench.command("createIndexes", "posts", indexes=list(INDEXES))
    servers = [Server("standalone", standalone, replicated=False), Server("set", member)]
    if references:
        alone, replicated = references
        initiate(REFERENCE_SET, [replicated])
        servers += [
            Server("reference", alone, replicated=False, ours=False),
            Server("reference set", replicated, ours=False),
        ]
    for each in servers:
        with closing(pymongo.MongoClient(each.member.address, directConnection=True)) as client:
            client.bench.command("createIndexes", "posts", indexes=list(INDEXES))
    return [*servers, Server("shard", shard, version=shard_version(shard.address))]


def shard_version(address: str) -> dict[str, Any]:
    """What a router sends a shard with each request on the collection."""
    with closing(pymongo.MongoClient(address, directConnection=True)) as client:
        metadata = client.admin.command("getShardVersion", NAMESPACE, fullMetadata=True)["metadata"]
    return {"v": metadata["shardVersion"], "e": metadata["collVersionEpoch"]}


def compare(
    directory: Path,
    only: str,
    rounds: int,
    *,
    references: Sequence[Member] = (),
    count: int = COUNT,
    concerns: Sequence[Concern | None] = ({"w": 1}, None),
) -> None:
    """Measure the operations whose name holds `only` on every server in turn; print the medians of the rounds.

    `references`: a standalone and a member of the set `REFERENCE_SET`, where there is a reference.
    """
    operations = {
        name: operation for name, operation in OPERATIONS.items() if only in name or name in ("insert", "delete")
    }
    with stopped_at_end(Deployment(directory)) as deployment:
        servers = start(deployment, references)
        for concern in concerns:
            costs: dict[tuple[str, str], list[tuple[float, float]]] = {}
            for _ in range(rounds):
                for name, operation in operations.items():
                    for server in servers:
                        costs.setdefault((name, server.name), []).append(measure(server, operation, concern, count))
            _print(costs, list(operations), servers, concern)


def _print(
    costs: dict[tuple[str, str], list[tuple[float, float]]],
    operations: list[str],
    servers: Sequence[Server],
    concern: Concern | None,
) -> None:
    compared = {server.name for server in servers if not server.ours}
    print(f"write concern {'not given' if concern is None else concern}: us (operations/s, ratio)")
    print(f"{'':21}" + "".join(f"{server.name:>28}" for server in servers))
    for name in operations:
        medians = {
            server.name: [statistics.median(each) for each in zip(*costs[name, server.name], strict=True)]
            for server in servers
        }
        cells = []
        for server in servers:
            spent, rate = medians[server.name]
            base = {"standalone": "reference", "set": "reference set"}.get(server.name, "")
            more, less = (medians[base][0], spent) if base in compared else (spent, medians["set"][0])
            # Of a few operations the system may not have counted anything yet.
            ratio = more / less if less else math.inf
            shown = f", {ratio:4.2f}" if server.ours else ""
            cells.append(f"{spent:10.1f} ({rate:6.0f}/s{shown})")
        print(f"{name:21}" + "".join(f"{cell:>28}" for cell in cells), flush=True)
