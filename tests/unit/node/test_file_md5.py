"""filemd5: the sum of a file of GridFS."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from bson.binary import Binary

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop

DATA = b"abcdefghij" * 100
CHUNKS = [{"files_id": "f", "n": n, "data": Binary(DATA[n * 300 : (n + 1) * 300])} for n in range(4)]


async def with_file(*chunks: dict[str, Any], root: str = "fs") -> LocalNode:
    node = LocalNode()
    index = {"key": {"files_id": 1, "n": 1}, "name": "files_id_1_n_1", "unique": True}
    await node.run({"createIndexes": f"{root}.chunks", "indexes": [index]})
    if chunks:
        await node.insert(f"{root}.chunks", *chunks)
    return node


@pytest.mark.parametrize("root", ["fs", "media"])
def test_the_chunks_are_summed_in_their_order(root: str) -> None:
    async def work() -> None:
        node = await with_file(*reversed(CHUNKS), root=root)
        expected = {"numChunks": 4, "md5": hashlib.md5(DATA).hexdigest(), "ok": 1}
        assert await node.run({"filemd5": "f", "root": root}) == expected
        empty = {"numChunks": 0, "md5": hashlib.md5(b"").hexdigest(), "ok": 1}
        assert await node.run({"filemd5": "another", "root": root}) == empty
        assert await node.run({"filemd5": "f", "root": "none"}) == empty

    loop(work())


def test_the_length_within_old_binary_data_is_no_part_of_them() -> None:
    async def work() -> None:
        node = await with_file({"files_id": 1, "n": 0.0, "data": Binary(b"abc", 2)})
        assert (await node.run({"filemd5": 1}))["md5"] == hashlib.md5(b"abc").hexdigest()

    loop(work())


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        ({"n": 2, "data": Binary(b"")}, 10040),
        ({"data": Binary(b"")}, 10040),
        ({"n": 1, "data": "text"}, 50849),
        ({"n": 1}, 50848),
    ],
)
def test_what_is_no_file_is_not_summed(chunk: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = await with_file({"files_id": 1, "n": 0, "data": Binary(b"x")}, {"files_id": 1, **chunk})
        assert (await node.reply({"filemd5": 1, "root": "fs"}))["code"] == code

    loop(work())


def test_it_needs_the_index_of_chunks_and_a_collection() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("fs.chunks", *CHUNKS)
        assert (await node.reply({"filemd5": "f"}))["code"] == Code.NoQueryExecutionPlans
        await node.run({"create": "v.chunks", "viewOn": "fs.chunks", "pipeline": []})
        assert (await node.reply({"filemd5": "f", "root": "v"}))["code"] == Code.CommandNotSupportedOnView
        assert (await node.reply({"filemd5": "f", "root": 5}))["code"] == Code.InvalidNamespace
        hidden = await node.reply({"filemd5": "f", "root": "../other.c"})
        assert (hidden["code"], hidden["errmsg"]) == (
            Code.InvalidNamespace,
            "Collection names cannot start with '.': ../other.c.chunks",
        )
        assert (await node.reply({"filemd5": "f", "partialOk": True}))["code"] == Code.NotImplemented

    loop(work())
