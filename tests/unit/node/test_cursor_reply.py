"""Replies of cursors, put together from stored bytes."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.int64 import Int64

from docstore.bson import append_fields
from docstore.errors import Code
from docstore.node.read.cursors import cursor_reply
from tests.unit.node.local import LocalNode, loop


@pytest.mark.parametrize("count", [0, 1, 2, 11, 3000])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("catalog", [True, False])
def test_a_cursor_reply_is_what_encoding_it_would_give(count: int, first: bool, catalog: bool) -> None:
    documents = [{"_id": number, "text": "x" * (number % 7)} for number in range(count)]
    reply = cursor_reply([bson.encode(each) for each in documents], 77, "db.é", first=first, catalog=catalog)
    batch: dict[str, Any] = {"firstBatch" if first else "nextBatch": documents}
    identity: dict[str, Any] = {"id": Int64(77), "ns": "db.é"}
    cursor = {**identity, **batch} if catalog else {**batch, **identity}
    assert reply == bson.encode({"cursor": cursor})
    assert append_fields(reply, bson.encode({"ok": 1.0})[4:-1]) == bson.encode({"cursor": cursor, "ok": 1.0})


def test_the_time_limit_of_a_find_holds_for_its_further_batches() -> None:
    """Only the time that commands take counts, and all of it together."""

    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": number} for number in range(9)))
        clock = [1000.0]
        object.__setattr__(node.services, "clock", lambda: clock[0])
        node.node.clock = lambda: clock[0]
        find = {"find": "c", "batchSize": 2, "maxTimeMS": 1000}
        opened = (await node.run(find))["cursor"]
        more = {"getMore": opened["id"], "collection": "c", "batchSize": 2}
        clock[0] += 60
        assert (await node.run(more))["cursor"]["nextBatch"] == [{"_id": 2}, {"_id": 3}]
        (cursor,) = node.services.cursors
        assert cursor.time_left == pytest.approx(1.0)
        cursor.time_left = 0.0
        assert (await node.reply(more))["code"] == Code.MaxTimeMSExpired
        assert (await node.reply(more))["code"] == Code.CursorNotFound

    loop(work())
