"""Columns inserted and read the short way, against the general way."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.errors import CommandError
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.sharding.token_ring import place_of
from docstore.widecolumn.model.column_families import DEFAULT_PARTITIONER
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.rows import row_size, stored_cells
from tests.unit.node.scripted_shard_filter import ScriptedShardFilter
from tests.unit.widecolumn.node.wide_columns import WideNode, time_uuid

_NAMES: dict[str, tuple[Any, ...]] = {
    "BytesType": ("a", b"a", "b", b"\0\xff", b"\xff", "", Int64(5), None),
    "UTF8Type": ("a", "b", "\u00e9\0", "c", b"a", b"\xff", "", 5),
    "LongType": (Int64(-1), Int64(9), Int64(0), 3, Int64(2**40), b"12345678", b"1234", "12345678", ""),
    "TimeUUIDType": (
        time_uuid(1250438004),
        time_uuid(1250438005),
        Binary(bytes(16), 4),
        "537fd200-8b94-11de-8000-010203040506",
        "x",
    ),
    "ReversedType(LongType)": (Int64(-1), 3),
    "IntegerType": (Int64(-1), 3),
}
_VALUES: tuple[Any, ...] = ("v", "w", b"\xff\0", b"v", "", 7, None, "x" * 60)


def _without_default_times(reply: dict[str, Any]) -> dict[str, Any]:
    """The reply without what differs from run to run."""
    kept = {name: value for name, value in reply.items() if name not in ("operationTime", "$clusterTime")}
    if isinstance(kept.get("timestamp"), int) and kept["timestamp"] > 100:
        kept["timestamp"] = "now"
    return kept


def _command(rng: random.Random, names: tuple[Any, ...]) -> dict[str, Any]:
    key = rng.choice(("k", b"k", b"\0\xff", "l", "m", "", 5) if rng.random() < 0.2 else ("k", "l"))
    command: dict[str, Any] = {"key": key, "column": rng.choice(names)}
    if rng.random() < 0.5:
        command = {"wcGet": "F", **command}
        if rng.random() < 0.3:
            command["bytesAs"] = rng.choice(("string", "binary", "other"))
    elif rng.random() < 0.1:
        return {"wcRemove": "F", **command, "timestamp": Int64(rng.randrange(5))}
    elif rng.random() < 0.02:
        return {"wcRemove": "F", "key": key, "timestamp": Int64(rng.randrange(3))}
    else:
        command = {"wcInsert": "F", **command, "value": rng.choice(_VALUES)}
        command["timestamp"] = "x" if rng.random() < 0.05 else rng.choice((int, Int64, Int64))(rng.randrange(9))
        if rng.random() < 0.1:
            command["ttl"] = rng.choice((0, 100))
    if rng.random() < 0.2:
        command["consistency"] = rng.choice(("ONE", "one", "QUORUM", "ALL", "SOME"))
    return command


def _state(node: WideNode) -> tuple[list[tuple[bytes, bytes]], int, int, Any]:
    store = node.node.store
    family = store.collection("ks.F")
    assert family is not None
    report = store.validate(family)
    assert report.valid, report.errors
    size = row_size(store.engine, family, encode_row_key(DEFAULT_PARTITIONER, b"k"))
    return list(stored_cells(store.engine, family)), family.count, family.size, size


@pytest.mark.parametrize("compare", _NAMES)
@pytest.mark.parametrize("case", ["plain", "warnings", "shard"])
def test_the_short_way_does_what_the_general_way_does(compare: str, case: str) -> None:
    async def told() -> None:
        rng = random.Random(compare)
        short, general = WideNode(), WideNode()
        for node in (short, general):
            # One second for both: what is left of a time to live is in the replies.
            wide_of(node.node)._wall_clock = lambda: 1_250_000_000.0
            await node.begin({"createColumnFamily": "F", "compareWith": compare})
            if case == "shard":
                # All rows but "l" are this shard's.
                installed = ScriptedShardFilter()
                condition = {"token": {"$ne": place_of(DEFAULT_PARTITIONER, b"l")}}
                installed.owned = compile_filter(parse_filter(bson.encode(condition)))
                node.node.shard_filter = installed
            if case == "warnings":
                settings = wide_of(node.node).settings
                settings.warn_rows, settings.warn_bytes, settings.warn_value = 1, 30, 40
        for _ in range(250):
            command = _command(rng, _NAMES[compare])
            mine = await short.reply(command, "ks")
            # A field that says nothing is enough to be left to the general way.
            other = await general.reply({**command, "superColumn": None}, "ks")
            assert _without_default_times(mine) == _without_default_times(other), command
        assert _state(short) == _state(general)
        assert wide_of(short.node).settings.metrics == wide_of(general.node).settings.metrics

    asyncio.run(asyncio.wait_for(told(), 60))


def test_plain_mutations_of_a_batch_do_what_others_do() -> None:
    async def told() -> None:
        rng = random.Random(1)
        short, general = WideNode(), WideNode()
        for node in (short, general):
            await node.begin({"createColumnFamily": "F", "compareWith": "LongType"}, {"createColumnFamily": "G"})
        for _ in range(40):
            mutations = []
            for _ in range(rng.randrange(1, 300)):
                family = rng.choice("FFFG")
                name: Any = Int64(rng.randrange(50)) if family == "F" else rng.choice(("a", b"\0", b"\xff"))
                insert = {"name": name, "value": rng.choice(("v", b"w", ""))}
                if rng.random() < 0.9:
                    insert["timestamp"] = Int64(rng.randrange(6))
                mutations.append({"key": rng.choice("klm"), "columnFamily": family, "insert": insert})
            at = Int64(rng.randrange(6))
            mine = await short.reply({"wcBatchMutate": 1, "mutations": mutations, "timestamp": at}, "ks")
            odd = [{**each, "insert": {**each["insert"], "ttl": None}} for each in mutations]  # type: ignore[dict-item]
            other = await general.reply({"wcBatchMutate": 1, "mutations": odd, "timestamp": at}, "ks")
            assert mine == other
            assert mine["n"] == len(mutations)
        assert _state(short) == _state(general)

    asyncio.run(asyncio.wait_for(told(), 60))


def test_a_batch_with_a_mutation_that_is_refused_writes_nothing() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin({"createColumnFamily": "F", "compareWith": "LongType"})
        mutations = [
            {"key": "k", "columnFamily": "F", "insert": {"name": Int64(number), "value": "v"}} for number in range(300)
        ]
        mutations.append({"key": "k", "columnFamily": "F", "insert": {"name": "four", "value": "v"}})
        assert await node.refused({"wcBatchMutate": 1, "mutations": mutations}) == (
            2, "Expected 8 or 0 byte long (4)",
        )  # fmt: skip
        assert await node.names("F", "k") == []

    asyncio.run(asyncio.wait_for(told(), 30))


def test_a_node_that_may_not_write_refuses_the_short_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin({"createColumnFamily": "F"})
        await node.insert("F", "k", "a", "v")

        def check_write() -> None:
            raise CommandError(10107, "not primary")

        monkeypatch.setattr(node.node.replication, "check_write", check_write)
        code, _ = await node.refused({"wcInsert": "F", "key": "k", "column": "a", "value": "w"})
        assert code in (10107, 100)
        assert (await node.wide({"wcGet": "F", "key": "k", "column": "a"}))["column"]["value"] == b"v"

    asyncio.run(asyncio.wait_for(told(), 30))


def test_what_has_been_truncated_is_not_found_the_short_way() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin({"createColumnFamily": "F"})
        get = {"wcGet": "F", "key": "k", "column": "a"}
        for value in ("v", "w"):
            assert (await node.refused(get))[0] == 47
            await node.insert("F", "k", "a", value)
            assert (await node.wide(get))["column"]["value"] == value.encode()
            await node.wide({"wcTruncate": "F"})
        assert (await node.refused(get))[0] == 47

    asyncio.run(asyncio.wait_for(told(), 30))
