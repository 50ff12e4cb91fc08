"""Replies of cursors, put together from stored bytes."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.int64 import Int64

from docstore.bson import append_fields
from docstore.node.cursors import cursor_reply


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
