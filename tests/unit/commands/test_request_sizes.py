"""How long requests may be, and how many statements they may have."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64

from docstore.wire.compression import COMPRESSOR_IDS, wrap
from docstore.wire.message import MAX_SEQUENCE, Overfull, decode_frame, encode_message
from tests.unit.node.local import LocalNode


@pytest.mark.parametrize("size", [17_000_000, 27_000_000])
def test_a_command_beyond_16_mb_is_refused(size: int) -> None:
    async def scenario() -> None:
        reply = await LocalNode().reply({"ping": 1, "comment": "y" * size})
        assert reply["code"] == 10334
        assert reply["errmsg"].endswith("is invalid. Size must be between 0 and 16793600(16MB) First element: ping: 1")
        assert (await LocalNode().reply({"ping": 1, "comment": "y" * 16_793_000}))["ok"] == 1

    asyncio.run(scenario())


def test_a_small_frame_of_millions_of_documents_is_refused_without_taking_them_apart() -> None:
    empty = bson.encode({})
    count = 9_000_000
    frame = encode_message(bson.encode({"insert": "c", "$db": "test"}), request_id=1, sequences=[("documents", [])])
    # The sequence is the last section: its size counts itself, its name and the documents.
    size = 4 + len(b"documents\0") + count * len(empty)
    head = frame[: -len(b"documents\0") - 4] + size.to_bytes(4, "little") + b"documents\0"
    body = head[16:] + empty * count
    whole = (16 + len(body)).to_bytes(4, "little") + frame[4:16] + body
    packed = wrap(whole, COMPRESSOR_IDS["zstd"])
    assert len(packed) < 8192

    async def scenario() -> None:
        node = LocalNode()
        message = decode_frame(packed)
        documents = message.sequences["documents"]
        assert isinstance(documents, Overfull)
        assert (len(documents), documents.total) == (0, count)
        reply = node.dispatcher.handle(message, node.peer)
        assert isinstance(reply, bytes)
        assert bson.decode(reply)["code"] == 16
        assert "Got 9000000 operations." in bson.decode(reply)["errmsg"]

    asyncio.run(scenario())
    assert count > MAX_SEQUENCE


REPLICATED: dict[str, Any] = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1)}
LONG_PATH = ".".join("a" * 5000)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"insert": "c", "documents": [{}], "stmtIds": [Int64(2**40)], **REPLICATED}, 14),
        ({"insert": "c", "documents": [{}], "stmtId": Int64(2**40), **REPLICATED}, 14),
        ({"update": "c", "updates": [{"q": {}, "u": {"$set": {LONG_PATH: 1}}}]}, 15),
        ({"update": "c", "updates": [{"q": {"b": 1}, "u": {"$set": {LONG_PATH: 1}}, "upsert": True}]}, 15),
        ({"find": "c", "filter": {LONG_PATH: 1}}, 5729100),
        ({"find": "c", "sort": {LONG_PATH: 1}}, 15),
        ({"find": "c", "projection": {LONG_PATH: 1}}, 15),
        ({"distinct": "c", "key": LONG_PATH}, 15),
        ({"aggregate": "c", "pipeline": [{"$group": {"_id": "$" + LONG_PATH}}], "cursor": {}}, 15),
        ({"aggregate": "c", "pipeline": [{"$unwind": "$" + LONG_PATH}], "cursor": {}}, 15),
        ({"createIndexes": "c", "indexes": [{"key": {LONG_PATH: 1}, "name": "x"}]}, 67),
        ({"find": "c", "filter": {"a": DatetimeMS(2**62)}}, 0),
    ],
)
def test_long_paths_and_statement_ids_beyond_32_bits_are_refused_with_a_reason(
    command: dict[str, Any], code: int
) -> None:
    async def scenario() -> None:
        node = LocalNode(replicated=True)
        await node.reply({"insert": "c", "documents": [{"_id": 1}]})
        reply = await node.reply(command)
        (error,) = reply.get("writeErrors", [reply])
        assert error.get("code", 0) == code, error

    asyncio.run(scenario())
