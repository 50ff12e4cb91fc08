"""Clients of 2012: old opcodes against a node's commands."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import bson
import pytest

from docstore.commands.dispatch import Pending
from docstore.commands.legacy import opcodes
from docstore.wire import decode_frame
from tests.harness import frames
from tests.unit.node.local import LocalNode

Reply = tuple[int, int, list[dict[str, Any]]]


class OldClient:
    """Sends frames of old opcodes to a node and reads OP_REPLY bodies: (flags, cursor id, documents)."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node

    async def send(self, frame: bytes) -> bytes | None:
        message = decode_frame(frame)
        assert message.operation is not None
        outcome = opcodes.serve(self._node.dispatcher, message, message.operation, self._node.peer)
        if isinstance(outcome, Pending):
            outcome = await outcome.finish()
        assert outcome is None or isinstance(outcome, bytes)
        return outcome

    async def ask(self, frame: bytes) -> Reply:
        body = await self.send(frame)
        assert body is not None
        flags, cursor_id, _start, count = struct.unpack_from("<iqii", body)
        documents = bson.decode_all(body[20:])
        assert len(documents) == count
        return flags, cursor_id, documents

    async def query(self, namespace: str, document: dict[str, Any], **options: int) -> Reply:
        return await self.ask(frames.query(bson.encode(document), request_id=1, namespace=namespace, **options))

    async def last_error(self, **concern: Any) -> dict[str, Any]:
        return (await self.query("db.$cmd", {"getlasterror": 1, **concern}))[2][0]

    async def insert(self, *documents: dict[str, Any], flags: int = 0) -> None:
        assert await self.send(frames.insert("db.c", [bson.encode(each) for each in documents], flags=flags)) is None


Story = Callable[[OldClient], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    async def run() -> None:
        await story(OldClient(LocalNode()))

    asyncio.run(run())


def test_get_last_error_tells_of_the_last_write() -> None:
    async def story(client: OldClient) -> None:
        await client.insert({"_id": 1}, {"_id": 2})
        assert (await client.last_error(w=1, j=True))["err"] is None
        await client.insert({"_id": 1})
        error = await client.last_error()
        assert (error["code"], error["n"]) == (11000, 0)
        await client.send(frames.update("db.c", bson.encode({}), bson.encode({"$set": {"x": 1}}), flags=2))
        assert await client.last_error() == {"connectionId": 1, "updatedExisting": True, "n": 2, "err": None, "ok": 1.0}
        await client.send(frames.update("db.c", bson.encode({"_id": 9}), bson.encode({"$set": {"x": 1}}), flags=1))
        assert (await client.last_error())["upserted"] == 9
        await client.send(frames.delete("db.c", bson.encode({}), flags=1))
        assert (await client.last_error())["n"] == 1
        await client.query("db.$cmd", {"resetError": 1})
        assert (await client.last_error())["n"] == 0

    play(story)


def test_an_insert_may_go_on_after_an_error() -> None:
    async def story(client: OldClient) -> None:
        await client.insert({"_id": 1}, {"_id": 1}, {"_id": 2}, flags=1)
        assert (await client.query("db.$cmd", {"count": "c"}))[2][0]["n"] == 2

    play(story)


def test_a_query_gives_batches_until_its_cursor_ends() -> None:
    async def story(client: OldClient) -> None:
        await client.insert(*({"_id": number} for number in range(25)))
        _, cursor_id, first = await client.query("db.c", {}, number=10)
        _, same, second = await client.ask(frames.get_more("db.c", 10, cursor_id))
        assert (same, len(first), len(second)) == (cursor_id, 10, 10)
        assert await client.send(frames.kill_cursors(cursor_id)) is None
        assert (await client.ask(frames.get_more("db.c", 10, cursor_id)))[0] == 1

    play(story)


def test_modifiers_are_wrapped_around_a_query() -> None:
    async def story(client: OldClient) -> None:
        await client.insert(*({"_id": number} for number in range(5)))
        wrapped = {"$query": {"_id": {"$gt": 1}}, "$orderby": {"_id": -1}}
        assert (await client.query("db.c", wrapped, number=-2))[2] == [{"_id": 4}, {"_id": 3}]
        explained = await client.query("db.c", {"$query": {}, "$explain": True})
        assert "queryPlanner" in explained[2][0]
        flags, _, refusal = await client.query("db.c", {"$query": {}, "$maxScan": 3})
        assert (flags, refusal[0]["code"]) == (2, 2)

    play(story)


def test_indexes_are_made_and_read_in_the_system_collection() -> None:
    async def story(client: OldClient) -> None:
        index = {"ns": "db.c", "key": {"x": 1}, "name": "x_1"}
        await client.send(frames.insert("db.system.indexes", [bson.encode(index)]))
        listed = (await client.query("db.system.indexes", {"ns": "db.c"}))[2]
        assert [each["name"] for each in listed] == ["_id_", "x_1"]
        assert listed[1]["ns"] == "db.c"
        assert (await client.query("db.system.namespaces", {}))[2] == [{"name": "db.c"}]

    play(story)


@pytest.mark.parametrize("document", [{"$bogus": 1}, {"x": {"$bogus": 1}}])
def test_a_refused_query_says_why(document: dict[str, Any]) -> None:
    async def story(client: OldClient) -> None:
        flags, _, reply = await client.query("db.c", document)
        assert flags == 2
        assert reply[0]["$err"]

    play(story)
