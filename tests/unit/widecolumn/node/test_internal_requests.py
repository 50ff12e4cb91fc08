"""Internal commands that are malformed are refused, and nothing of them is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.binary import Binary

from docstore.widecolumn.model.cells import Deletion, pack_cell, pack_deletion, value_cell
from docstore.widecolumn.model.mutations import Entry, pack_entries
from tests.unit.widecolumn.node.wide_columns import WideNode

CELL = pack_cell(value_cell(b"v", 1))
DELETION = pack_deletion(Deletion(1, 1))


def applying(*entries: Entry, cut: int = 0) -> dict[str, Any]:
    packed = pack_entries(entries)
    return {"_wcApply": "F", "writes": [{"key": Binary(b"k"), "entries": Binary(packed[: len(packed) - cut])}]}


MALFORMED = [
    {"_wcRead": "F", "row": "r", "points": [], "start": Binary(b""), "end": Binary(b"")},
    {"_wcRead": "F", "row": Binary(b"r"), "points": [1], "start": Binary(b""), "end": Binary(b"")},
    {"_wcScan": "F", "start": {}, "end": Binary(b""), "limit": 1},
    {"_wcScan": "F", "start": Binary(b""), "end": Binary(b""), "limit": 1, "row": Binary(b"")},
    {"_wcReadRow": "F", "key": 1, "start": Binary(b""), "end": Binary(b""), "limit": 1},
    {"_wcRows": "F", "start": 1, "end": 2, "limit": 1},
    {"_wcApply": "F", "writes": [{}]},
    {"_wcApply": "F", "writes": [{"key": Binary(b"k"), "entries": "x"}]},
    {"_wcApply": "F", "writes": [{"key": Binary(b"k"), "entries": Binary(b"xyz")}]},
    applying(Entry(b"\x20a\0\1", CELL), cut=1),
    applying(Entry(b"\x20a\0\1", b"")),
    applying(Entry(b"\x20a\0\1", b"\x03123456789")),
    applying(Entry(b"\x04", CELL)),
    applying(Entry(b"\0", CELL)),
    applying(Entry(b"\x08\0\0\0\1", DELETION)),
    applying(Entry(b"", CELL)),
    applying(Entry(b"\x20a\0\1", CELL, 99)),
    {**applying(Entry(b"\x20a\0\1", CELL)), "seen": [{}]},
    {**applying(), "writes": [], "seen": []},
]


@pytest.mark.parametrize("command", MALFORMED, ids=str)
def test_what_is_malformed_is_refused(command: dict[str, Any]) -> None:
    async def run() -> None:
        node = WideNode(replicated=True)
        await node.begin({"createColumnFamily": "F"})
        code, _ = await node.refused(command)
        assert code in (2, 14)
        rows = await node.wide({"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}})
        assert rows["rows"] == []

    asyncio.run(run())


def test_what_is_sound_is_kept() -> None:
    async def run() -> None:
        node = WideNode(replicated=True)
        await node.begin({"createColumnFamily": "F"})
        of_static_collection = Entry(b"\x08\0\0\0\1\0", DELETION)
        of_row = Entry(b"\0", pack_deletion(Deletion(0, 1)))
        await node.wide(applying(Entry(b"\x20a\0\1", CELL, 4), of_static_collection, of_row))
        assert [column["value"] for column in await node.slice("F", "k")] == ["v"]

    asyncio.run(run())
