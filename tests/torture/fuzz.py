"""Broken and odd messages at the door of a server with users: by strangers, and by a user who may read one database.

Conversations of a few messages each: requests with extreme values in their fields, whole or damaged, and bytes that are
no messages. Judged by what is left, and by what was answered:

* nothing is an InternalError, no conversation hangs, the process lives on and its memory does not grow;
* all data, users, roles and parameters are as before;
* a stranger is carried out nothing but the commands that are open to everybody; the marker in the documents of another
  database is in no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bson
import pymongo

from docstore.commands.declaration import PUBLIC
from docstore.errors import Code
from docstore.node.commands import COMMANDS
from docstore.security.scram_client import conversation
from docstore.wire.errors import ProtocolError
from docstore.wire.message import decode_frame, encode_message
from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness import frames
from tests.harness.bombs import resident
from tests.harness.serving import BareClient
from tests.unit.node.test_extreme_fields import OPTIONS, requests_of

MARKER = "a document of others"
READER, PASSWORD = "reader", "r"
LAST_ID = 0x7FFFFFFF
"""The request id of the ping that ends a conversation."""

CONNECTIONS = 8
MOST_MESSAGES = 24
DAMAGED_PARTS = (0.0, 0.0, 0.05, 0.5)
"""How many of a conversation's messages are damaged. The server ends most conversations at the first."""

SECONDS = 30.0
"""After this a conversation hangs."""

WARM_PART = 5
"""Memory is counted from a fifth of the way on."""

GROWTH_BYTES = 64 << 20
_PING = bson.encode({"ping": 1, "$db": "admin"})
_OWN_DATA = ("shop", "other")
_LENGTHS = (0, -1, 15, 16, 17, 1 << 16, (1 << 16) + 1, 48_000_000, 48_000_001, 1 << 30, 0x7FFFFFFF, -(1 << 31))
_OPCODES = (0, 1, 1000, 2001, 2002, 2003, 2004, 2005, 2006, 2007, 2010, 2011, 2012, 2013, -1)


@dataclass
class Findings:
    """What was seen; `wrong`: a line for each thing that must not be."""

    frames: int = 0
    conversations: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def fuzz(directory: Path, count: int, seed: int) -> Findings:
    """Half of `count` messages come from strangers, half from the reader. The database is a node's of our own."""
    findings = Findings()
    with stopped_at_end(Deployment(directory)) as deployment:
        node = Member("node", "mongod", ["--auth", "--setParameter", "failedLoginsPerAddress=0"])
        deployment.start(node)
        with pymongo.MongoClient[dict[str, Any]](node.address, directConnection=True) as client:
            client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        with pymongo.MongoClient[dict[str, Any]](
            node.address, directConnection=True, username="root", password=PASSWORD
        ) as root:
            root.shop.command("createUser", READER, pwd=PASSWORD, roles=["read"])
            for name in _OWN_DATA:
                root[name].c.insert_many([{"_id": n, "a": n, "text": MARKER * (name == "other")} for n in range(100)])
            for user in (None, READER):
                before = _state(root)
                for part in (count // 2 // WARM_PART, count // 2 - count // 2 // WARM_PART):
                    held = resident(node.pid)
                    asyncio.run(_Fuzzer(node.port, user, random.Random(f"{seed} {user} {part}"), findings).run(part))
                if resident(node.pid) > held + GROWTH_BYTES:
                    findings.wrong.append(f"memory grew from {held >> 20} to {resident(node.pid) >> 20} MB")
                if (after := _state(root)) != before:
                    changed = [name for name in before if before[name] != after[name]]
                    findings.wrong.append(f"by {user or 'a stranger'} changed: {changed}")
        if not node.running:
            findings.wrong.append("the process has ended")
    return findings


def _state(root: pymongo.MongoClient[dict[str, Any]]) -> dict[str, Any]:
    """All that nobody here may change."""
    names = [each for each in root.list_database_names() if each not in ("local", "config")]
    return {
        **{name: root[name].command("dbHash")["md5"] for name in names},
        "names": names,
        "users": list(root.admin["system.users"].find()),
        "parameters": root.admin.command("getParameter", "*"),
    }


class _Fuzzer:
    """Conversations with one server, by one user or by strangers."""

    def __init__(self, port: int, user: str | None, rng: random.Random, findings: Findings) -> None:
        self._port, self._user, self._rng, self._findings = port, user, rng, findings
        self._requests = list(_requests())
        self._open = {name for each in COMMANDS if each.privilege is PUBLIC for name in (each.name, *each.aliases)}
        self._left = 0

    async def run(self, count: int) -> None:
        self._left = count
        await asyncio.gather(*[self._converse_on() for _ in range(CONNECTIONS)])

    async def _converse_on(self) -> None:
        while self._left > 0:
            damaged = self._rng.choice(DAMAGED_PARTS)
            sent = [self._message(damaged) for _ in range(self._rng.randrange(1, MOST_MESSAGES))]
            self._left -= len(sent)
            self._findings.frames += len(sent)
            self._findings.conversations += 1
            try:
                async with asyncio.timeout(SECONDS):
                    await self._converse(sent)
            except TimeoutError:
                self._findings.wrong.append(f"no answer within {SECONDS} s: {[each[:200] for each in sent]}")

    async def _converse(self, sent: list[bytes]) -> None:
        """Until the last ping is answered, or the server has closed the connection."""
        async with _connected(self._port) as client:
            if self._user is not None:
                await _log_in(client, self._user)
            with contextlib.suppress(ConnectionError, EOFError):
                client.writer.write(b"".join(sent) + encode_message(_PING, request_id=LAST_ID))
                if not all(_whole(each) for each in sent):
                    # The ping may be taken for a part of something larger.
                    client.writer.write_eof()
                while not self._is_last(await client.receive_frame(), sent):
                    pass

    def _is_last(self, frame: bytes, sent: list[bytes]) -> bool:
        """Judge an answer; whether it is that to the ping."""
        (answered,) = struct.unpack_from("<i", frame, 8)
        if MARKER.encode() in frame:
            self._findings.wrong.append(f"others' documents in the answer to one of {[each[:300] for each in sent]}")
        reply = _decoded(frame)
        self._findings.codes[reply.get("code", 0)] += 1
        asked = next((each for each in sent if _id_of(each) == answered), b"")
        if reply.get("code") == Code.InternalError:
            self._findings.wrong.append(f"{reply} to {asked[:300]!r}")
        if reply.get("ok") and self._user is None and answered != LAST_ID and _command_of(asked) not in self._open:
            self._findings.wrong.append(f"a stranger was answered {reply} to {asked[:300]!r}")
        return answered == LAST_ID

    def _message(self, damaged: float) -> bytes:
        rng = self._rng
        whole = self._dressed(rng.choice(self._requests), rng.randrange(1, LAST_ID))
        if rng.random() >= damaged:
            return whole
        data, damage = bytearray(whole), rng.randrange(6)
        if damage < 3:
            for _ in range(rng.randrange(1, 5)):
                data[rng.randrange(16 if damage < 2 else 0, len(data))] = rng.randrange(256)
        elif damage == 3:
            struct.pack_into("<i", data, 0, rng.choice(_LENGTHS))
        elif damage == 4:
            struct.pack_into("<i", data, 12, rng.choice(_OPCODES))
        else:
            data = data[: rng.randrange(len(data))]
            if len(data) >= 4 and rng.randrange(2):
                struct.pack_into("<i", data, 0, len(data))
        return bytes(data)

    def _dressed(self, request: bytes, number: int) -> bytes:
        """A request as one of the kinds of message that carry one."""
        kind = self._rng.randrange(10)
        if kind == 0:
            return frames.query(request, request_id=number, namespace="admin.$cmd")
        if kind == 1:
            return frames.query(request, request_id=number, namespace="other.c", number=0)
        message = encode_message(request, request_id=number)
        return frames.with_checksum(message) if kind == 2 else message


def _requests() -> Iterator[bytes]:
    """To every command with every odd value, and the steps of a login."""
    for command in COMMANDS:
        for request in requests_of(command):
            yield request
            if len(request) < 200:
                yield bson.encode({**bson.decode(request, OPTIONS), "$db": "other"})
    for payload in (
        b"",
        b"n,,n=root,r=x",
        b"n,,n=,r=",
        b"c=biws,r=x,p=AAAA",
        b"y,a=x,n=root,r=x",
        b"n,,m=x,n=root,r=x",
    ):
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN", "MONGODB-X509", "MONGODB-CR", "GSSAPI", ""):
            for db in ("admin", "shop", "$external"):
                start = {"saslStart": 1, "mechanism": mechanism, "payload": payload}
                yield bson.encode({**start, "$db": db})
                yield bson.encode({"hello": 1, "speculativeAuthenticate": {**start, "db": db}, "$db": db})
        yield bson.encode({"saslContinue": 1, "conversationId": 1, "payload": payload, "$db": "admin"})


def _decoded(answer: bytes) -> dict[str, Any]:
    """The document of an answer; that of an old kind may have none."""
    try:
        return bson.decode(decode_frame(answer).body, OPTIONS)
    except ProtocolError:
        return {}


def _whole(message: bytes) -> bool:
    """Whether whoever reads it will know where it ends."""
    return len(message) >= 16 and struct.unpack_from("<i", message)[0] == len(message)


def _id_of(message: bytes) -> int:
    return int.from_bytes(message[4:8], "little", signed=True)


def _command_of(message: bytes) -> str:
    """The name of the command in a message; empty where there is none."""
    with contextlib.suppress(ProtocolError, ValueError):
        found = decode_frame(message)
        body = found.operation.documents[0] if found.operation is not None else found.body
        # Of a document with damage further on the server reads no more than it needs.
        return body[5 : body.index(b"\0", 5)].decode()
    return ""


@contextlib.asynccontextmanager
async def _connected(port: int) -> AsyncIterator[BareClient]:
    client = await BareClient.connect_to(port)
    try:
        yield client
    finally:
        client.writer.transport.abort()


async def _log_in(client: BareClient, user: str) -> None:
    steps = conversation("SCRAM-SHA-1", user, PASSWORD, random.randbytes(18))
    asked: dict[str, Any] = {"saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": next(steps)}
    asked["options"] = {"skipEmptyExchange": True}
    while True:
        reply = await client.ask(asked, db="shop")
        assert reply["ok"], reply
        try:
            payload = steps.send(bytes(reply["payload"]))
        except StopIteration:
            assert reply["done"], reply
            return
        asked = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": payload}
