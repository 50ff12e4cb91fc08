"""Column families on one node: what is written is read back in the order of names, by the rules of the merge."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import permutations
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.widecolumn.node.keyspaces import wide_of
from tests.unit.widecolumn.node.wide_columns import WideNode, time_uuid

FAMILY = {"createColumnFamily": "F", "compareWith": "UTF8Type"}
SUPER = {
    "createColumnFamily": "S",
    "columnType": "Super",
    "compareWith": "UTF8Type",
    "compareSubcolumnsWith": "UTF8Type",
}


def story(told: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(told, 30))


@pytest.mark.parametrize(
    ("compare", "names", "order"),
    [
        ("LongType", [976, 3, 832416, 123], [3, 123, 976, 832416]),
        ("UTF8Type", ["976", "3", "832416", "123"], ["123", "3", "832416", "976"]),
        ("LongType", [0, -1, 2**63 - 1, 1, -(2**63)], [-(2**63), -1, 0, 1, 2**63 - 1]),
        ("UTF8Type", ["b", "Z", "aa", "a", "\U00010000", "\uffff", "\u00e9"],
         ["Z", "a", "aa", "b", "\u00e9", "\uffff", "\U00010000"]),
        ("BytesType", [b"\x80", b"\x00", b"\xff", b"\x00\x00", b"\x7f", b"\x01", b"\x00\xff"],
         [b"\x00", b"\x00\x00", b"\x00\xff", b"\x01", b"\x7f", b"\x80", b"\xff"]),
        ("TimeUUIDType", [time_uuid(1250558004), time_uuid(1250438004), time_uuid(1250557004)],
         [time_uuid(1250438004), time_uuid(1250557004), time_uuid(1250558004)]),
        ("ReversedType(LongType)", [1, 3, 2], [3, 2, 1]),
    ],
)  # fmt: skip
def test_columns_stand_in_the_order_of_the_comparator(compare: str, names: list[Any], order: list[Any]) -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin({"createColumnFamily": "F", "compareWith": compare})
        for name in names:
            await node.insert("F", "k", Int64(name) if isinstance(name, int) else name, "v")
        reply = await node.wide({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {}}})
        assert [column["name"] for column in reply["columns"]] == order
        reply = await node.wide({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {"reversed": True}}})
        assert [column["name"] for column in reply["columns"]] == order[::-1]

    story(told())


INSERT = {"wcInsert": "F", "key": "k", "column": "c"}
REMOVE = {"wcRemove": "F", "key": "k"}


@pytest.mark.parametrize(
    ("history", "read"),
    [
        (({**INSERT, "value": "a", "timestamp": 10}, {**INSERT, "value": "b", "timestamp": 9}), "a"),
        (({**INSERT, "value": "a", "timestamp": 10}, {**INSERT, "value": "b", "timestamp": 10}), "b"),
        (({**INSERT, "value": "ab", "timestamp": 10}, {**INSERT, "value": "b", "timestamp": 10}), "b"),
        (({**INSERT, "value": "zzz", "timestamp": 10}, {**REMOVE, "column": "c", "timestamp": 10}), None),
        (({**REMOVE, "column": "c", "timestamp": 11}, {**INSERT, "value": "a", "timestamp": 10}), None),
        (({**REMOVE, "timestamp": 10}, {**INSERT, "value": "a", "timestamp": 10}), None),
        (({**REMOVE, "timestamp": 10}, {**INSERT, "value": "a", "timestamp": 11}), "a"),
        (({**INSERT, "value": "a", "timestamp": 10, "ttl": 60}, {**INSERT, "value": "z", "timestamp": 10}), "a"),
        (({**INSERT, "value": "a", "timestamp": 5}, {**REMOVE, "timestamp": 5}, {**INSERT, "value": "b"}), None),
    ],
)  # fmt: skip
def test_histories_read_alike_in_any_order(history: tuple[dict[str, Any], ...], read: str | None) -> None:
    async def told() -> None:
        for order in permutations(history):
            node = WideNode()
            await node.begin(FAMILY)
            for command in (*order, order[0]):
                await node.wide({**command, "timestamp": command.get("timestamp", 1)})
            found = await node.slice("F", "k")
            assert [column["value"] for column in found] == ([] if read is None else [read])
            reply = await node.reply({"wcGet": "F", "key": "k", "column": "c"}, "ks")
            assert reply["ok"] == (read is not None)
            if read is None:
                assert (reply["code"], reply["wcException"]) == (47, "NotFoundException")

    story(told())


def test_a_tie_leaves_a_row_that_nobody_wrote() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(FAMILY)
        for x, y in (("1", "9"), ("5", "2")):
            for name, value in (("x", x), ("y", y)):
                await node.insert("F", "k", name, value, 7)
        assert [(column["name"], column["value"]) for column in await node.slice("F", "k")] == [("x", "5"), ("y", "9")]

    story(told())


def test_a_super_column_is_removed_and_lives_again() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(SUPER)
        for name in ("a", "b"):
            await node.insert("S", "k", name, "old", 10, superColumn="sc")
        await node.wide({"wcRemove": "S", "key": "k", "superColumn": "sc", "timestamp": Int64(10)})
        assert await node.slice("S", "k") == []
        await node.insert("S", "k", "z", "new", 11, superColumn="sc")
        [found] = await node.slice("S", "k")
        assert found == {"name": "sc", "columns": [{"name": "z", "value": "new", "timestamp": 11}]}
        whole = await node.wide({"wcGet": "S", "key": "k", "superColumn": "sc", "bytesAs": "string"})
        assert whole["superColumn"] == found
        assert (await node.wide({"wcGetCount": "S", "key": "k"}))["n"] == 1
        assert (await node.wide({"wcGetCount": "S", "key": "k", "superColumn": "sc"}))["n"] == 1

    story(told())


def test_a_column_expires() -> None:
    async def told() -> None:
        node = WideNode()
        now = [1_000_000.0]
        wide_of(node.node)._wall_clock = lambda: now[0]
        await node.begin(FAMILY)
        await node.insert("F", "k", "c", "v", 1, ttl=10)
        now[0] += 3
        assert (await node.wide({"wcGet": "F", "key": "k", "column": "c"}))["column"]["ttl"] == 7
        now[0] += 7
        assert await node.slice("F", "k") == []
        await node.insert("F", "k", "c", "again", 2)
        [found] = await node.slice("F", "k")
        assert found == {"name": "c", "value": "again", "timestamp": 2}

    story(told())


def test_slices_are_cut_by_bounds_and_counts() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(FAMILY)
        for name in "abcdefg":
            await node.insert("F", "k", name)
        assert await node.names("F", "k", start="b", finish="d") == ["b", "c", "d"]
        assert await node.names("F", "k", start="d", finish="b", reversed=True) == ["d", "c", "b"]
        assert await node.names("F", "k", start="bb", count=2) == ["c", "d"]
        assert await node.names("F", "k", count=0) == []
        await node.wide({"wcRemove": "F", "key": "k", "column": "b"})
        assert await node.names("F", "k", count=2) == ["a", "c"]
        page, last = await node.names("F", "k", count=3), ""
        while len(page) > bool(last):
            last = page[-1]
            page = await node.names("F", "k", start=last, count=3)
            assert page[0] == last
        reply = await node.wide(
            {"wcMultigetSlice": "F", "keys": ["none", "k", "none"], "predicate": {"columnNames": ["g", "a", "g", "x"]}}
        )
        assert [(row["key"], [column["name"] for column in row["columns"]]) for row in reply["rows"]] == [
            ("none", []),
            ("k", ["a", "g"]),
        ]

    story(told())


def test_a_slice_reads_only_what_it_gives() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin({"createColumnFamily": "F", "compareWith": "LongType"})
        mutations = [
            {"key": "k", "columnFamily": "F", "insert": {"name": Int64(name), "value": ""}} for name in range(3000)
        ]
        assert (await node.wide({"wcBatchMutate": 1, "mutations": mutations}))["n"] == 3000
        wanted = {"sliceRange": {"reversed": True, "count": 10}}
        reply = await node.wide({"wcGetSlice": "F", "key": "k", "predicate": wanted, "explain": True})
        assert [column["name"] for column in reply["columns"]] == list(range(2999, 2989, -1))
        assert reply["explain"]["keysExamined"] == 10
        assert reply["explain"]["scan"] == "reverseSlice"
        names = {"columnNames": [Int64(5), Int64(2500)]}
        reply = await node.wide({"wcGetSlice": "F", "key": "k", "predicate": names, "explain": True})
        assert reply["explain"]["keysExamined"] == 2
        node.hurry()
        assert (await node.wide({"wcGetCount": "F", "key": "k"}))["n"] == 3000
        whole = await node.wide({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {"count": 5000}}})
        assert len(whole["columns"]) == 3000

    story(told())


def test_rows_come_in_the_order_of_their_tokens() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(FAMILY)
        for key in ("a", "foo", "USA"):
            await node.insert("F", key, "c")
        await node.insert("F", "gone", "c")
        await node.wide({"wcRemove": "F", "key": "gone"})

        async def keys(**fields: Any) -> list[str]:
            asked = {"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}, "excludeEmpty": True, **fields}
            return [row["key"] for row in (await node.wide(asked))["rows"]]

        assert await keys() == ["a", "foo", "USA"]
        ghosts = await node.wide({"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}})
        assert {"key": "gone", "columns": []} in ghosts["rows"]
        assert await keys(range={"startKey": "foo", "endKey": ""}) == ["foo", "USA"]
        assert await keys(range={"startKey": "", "endKey": "foo"}) == ["a", "foo"]
        assert await keys(range={"startKey": "a", "endKey": "USA"}, count=2) == ["a", "foo"]
        token = {"a": -8839064797231613815, "foo": -2129773440516405919}
        after = {"startToken": str(token["a"]), "endToken": str(token["foo"])}
        assert await keys(range=after) == ["foo"]
        wrapped = {"startToken": str(token["foo"]), "endToken": str(token["a"])}
        assert sorted(await keys(range=wrapped)) == ["USA", "a"]
        assert await keys(range={"startToken": "7", "endToken": "7"}) == ["USA", "a", "foo"]
        code, text = await node.refused(
            {"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}, "range": {"startKey": "USA", "endKey": "a"}}
        )
        assert (code, text) == (2, "start key must sort before (or equal to) finish key in your partitioner!")

    story(told())


LONG_KEY = "k" * 65536


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ({"wcInsert": "F", "key": "", "column": "c", "value": ""}, "Key may not be empty"),
        ({"wcInsert": "F", "key": LONG_KEY, "column": "c", "value": ""},
         "Key length of 65536 is longer than maximum of 65535"),
        ({"wcInsert": "F", "key": "k", "column": "", "value": ""}, "column name must not be empty"),
        ({"wcInsert": "S", "key": "k", "superColumn": "", "column": "c", "value": ""},
         "supercolumn name must not be empty"),
        ({"wcInsert": "F", "key": "k", "column": LONG_KEY, "value": ""},
         "column name length must not be greater than 65535"),
        ({"wcInsert": "F", "key": "k", "superColumn": "s", "column": "c", "value": ""},
         "supercolumn parameter is invalid for standard CF F"),
        ({"wcInsert": "F", "key": "k", "value": ""}, "column parameter is not optional for standard CF F"),
        ({"wcInsert": "S", "key": "k", "column": "c", "value": ""},
         "supercolumn parameter is not optional for super CF S"),
        ({"wcRemove": "S", "key": "k", "column": "c"}, "supercolumn parameter is not optional for super CF S"),
        ({"wcGet": "F", "key": "k"}, "column parameter is not optional for standard CF F"),
        ({"wcGetSlice": "F", "key": "k", "predicate": {}},
         "predicate column_names and slice_range may not both be null"),
        ({"wcGetSlice": "F", "key": "k", "predicate": {"columnNames": ["a"], "sliceRange": {}}},
         "predicate column_names and slice_range may not both be present"),
        ({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {"count": -1}}},
         "get_slice requires non-negative count"),
        ({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {"start": "b", "finish": "a"}}},
         "range finish must come after start in the order of traversal"),
        ({"wcGetSlice": "L", "key": "k", "predicate": {"columnNames": [b"1234"]}}, "Expected 8 or 0 byte long (4)"),
        ({"wcInsert": "T", "key": "k", "column": "537fd200-8b94-41de-8000-010203040506", "value": ""},
         "Invalid version for TimeUUID type."),
        ({"wcInsert": "F", "key": "k", "column": "c", "value": "v", "ttl": -1},
         "A TTL must be greater or equal to 0, but was -1"),
        ({"wcInsert": "F", "key": "k", "column": "c", "value": "v", "ttl": 630720001},
         "ttl is too large. requested (630720001) maximum (630720000)"),
        ({"wcGet": "F", "key": "k", "column": "c", "consistency": "ANY"},
         "Consistency level any may not be applied to read operations"),
        ({"wcBatchMutate": 1, "mutations": [{"key": "k", "columnFamily": "F", "deletion": {"sliceRange": {}}}]},
         "Deletion does not yet support SliceRange predicates."),
        ({"wcBatchMutate": 1, "mutations": [
            {"key": "k", "columnFamily": "F", "insert": {"name": "a", "value": ""}, "deletion": {}}]},
         "Mutation may have either a ColumnOrSuperColumn or a Deletion, but not both"),
        ({"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}, "count": 0}, "maxRows must be positive"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_right_say_why(command: dict[str, Any], text: str) -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(
            FAMILY,
            SUPER,
            {"createColumnFamily": "L", "compareWith": "LongType"},
            {"createColumnFamily": "T", "compareWith": "TimeUUIDType"},
        )
        reply = await node.reply(command, "ks")
        assert (reply["code"], reply["why"], reply["wcException"]) == (2, text, "InvalidRequestException")

    story(told())


def test_the_schema_refuses_what_cannot_be() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(FAMILY)
        assert await node.refused({"createKeyspace": "ks"}, "admin") == (48, "keyspace ks already exists")
        await node.run({"createKeyspace": "ks", "ifNotExists": True}, "admin")
        assert (await node.refused({"createKeyspace": "a-b"}, "admin"))[0] == 2
        assert (await node.refused({"createColumnFamily": "F"}))[0] == 48
        assert await node.refused({"createColumnFamily": "a-b"}) == (2, "ColumnFamily names cannot contain hyphens")
        assert await node.refused({"createColumnFamily": "G", "compareWith": "Nope"}) == (
            2,
            "Unable to find comparator class 'Nope'",
        )
        assert await node.refused({"alterColumnFamily": "F", "compareWith": "LongType"}) == (
            2,
            "comparator cannot be changed",
        )
        await node.wide({"alterColumnFamily": "F", "comment": "changed", "gcGraceSeconds": 5})
        described = await node.wide({"describeKeyspace": 1})
        [family] = described["columnFamilies"]
        assert (family["comment"], family["gcGraceSeconds"]) == ("changed", 5)
        assert await node.refused({"wcGet": "none", "key": "k", "column": "c"}) == (
            26,
            "unconfigured columnfamily none",
        )
        assert await node.refused({"wcGet": "F", "key": "k", "column": "c"}, "nope") == (
            26,
            "Keyspace nope does not exist in this schema.",
        )
        await node.insert("F", "k", "c")
        await node.wide({"wcTruncate": "F"})
        assert await node.slice("F", "k") == []
        await node.wide({"dropColumnFamily": "F"})
        assert (await node.refused({"wcGet": "F", "key": "k", "column": "c"}))[0] == 26
        await node.wide({"dropKeyspace": 1})
        assert (await node.refused({"dropKeyspace": 1}))[0] == 26

    story(told())


def test_each_mode_refuses_the_commands_of_the_other() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(FAMILY)
        await node.run({"insert": "c", "documents": [{"_id": 1}]}, "docs")
        for command in (
            {"find": "F"},
            {"insert": "x", "documents": [{}]},
            {"aggregate": "F", "pipeline": [], "cursor": {}},
            {"create": "x"},
            {"createIndexes": "F", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            {"count": "F"},
            {"drop": "F"},
        ):
            code, text = await node.refused(command)
            assert code == 115, (command, text)
            assert "keyspace" in text
        out = {"aggregate": "c", "pipeline": [{"$out": {"db": "ks", "coll": "x"}}], "cursor": {}}
        assert (await node.refused(out, "docs"))[0] == 115
        assert (await node.refused({"renameCollection": "docs.c", "to": "ks.c"}, "admin"))[0] == 115
        assert (await node.refused({"wcGet": "c", "key": "k", "column": "c"}, "docs"))[0] == 115
        assert (await node.refused({"createKeyspace": "docs"}, "admin"))[0] == 48

    story(told())


def test_a_row_that_grows_too_large_is_told_of_once() -> None:
    async def told() -> None:
        node = WideNode()
        wide_of(node.node).settings.warn_rows = 3
        wide_of(node.node).settings.warn_bytes = 200
        wide_of(node.node).settings.warn_value = 150
        await node.begin(FAMILY, SUPER)
        told: list[list[str]] = []
        for name in "abcdef":
            reply = await node.wide({"wcInsert": "F", "key": "k", "column": name, "value": "v"})
            told.append(reply.get("warnings", []))
        assert told[3] == ["Writing large partition ks/F:k (4 rows)"]
        assert sum(map(len, told)) == 1
        reply = await node.wide({"wcInsert": "F", "key": "l", "column": "c", "value": "v" * 300})
        assert [text.partition("(")[0] for text in reply["warnings"]] == [
            "Writing large value in ks/F:l ",
            "Writing large partition ks/F:l ",
        ]
        for name in "abcdef":
            reply = await node.wide({"wcInsert": "S", "key": "k", "superColumn": "s", "column": name, "value": ""})
            assert "warnings" not in reply
        assert wide_of(node.node).settings.metrics.wide_partitions == 2
        wide_of(node.node).settings.fail_tombstones = 2
        for name in "abc":
            await node.wide({"wcRemove": "F", "key": "k", "column": name})
        reply = await node.reply({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {}}}, "ks")
        assert reply["wcException"] == "TombstoneOverwhelming"
        wide_of(node.node).settings.max_value = 10
        code, text = await node.refused({"wcInsert": "F", "key": "k", "column": "big", "value": "v" * 11})
        assert (code, "11 bytes" in text) == (2, True)

    story(told())


def test_levels_that_one_node_cannot_give_are_unavailable() -> None:
    async def told() -> None:
        node = WideNode()
        await node.run({"createKeyspace": "ks", "replication": {"replicationFactor": 3}}, "admin")
        await node.wide(FAMILY)
        insert = {"wcInsert": "F", "key": "k", "column": "c", "value": "v"}
        for level in ("QUORUM", "ALL", "TWO"):
            reply = await node.reply({**insert, "consistency": level}, "ks")
            assert (reply["code"], reply["wcException"]) == (100, "UnavailableException")
            reply = await node.reply({"wcGet": "F", "key": "k", "column": "c", "consistency": level}, "ks")
            assert (reply["code"], reply["wcException"]) == (133, "UnavailableException")
        for level in ("ZERO", "ANY", "ONE"):
            await node.wide({**insert, "consistency": level})
        assert (await node.wide({"wcGet": "F", "key": "k", "column": "c"}))["ok"] == 1

    story(told())


def test_a_batch_is_judged_before_anything_is_written() -> None:
    async def told() -> None:
        node = WideNode()
        await node.begin(FAMILY, SUPER)
        good = {"key": "k", "columnFamily": "F", "insert": {"name": "a", "value": "1"}}
        bad = {"key": "k", "columnFamily": "F", "insert": {"name": "", "value": "1"}}
        assert (await node.refused({"wcBatchMutate": 1, "mutations": [good, bad]}))[0] == 2
        assert await node.slice("F", "k") == []
        mutations = [
            good,
            {"key": "k", "columnFamily": "S", "insertSuper": {
                "name": "s", "columns": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]}},
            {"key": "k", "columnFamily": "S", "deletion": {"superColumn": "s", "columnNames": ["x"]}},
            {"key": "l", "columnFamily": "F", "insert": {"name": "b", "value": "2", "timestamp": Int64(4)}},
        ]  # fmt: skip
        assert (await node.wide({"wcBatchMutate": 1, "mutations": mutations}))["n"] == 4
        assert await node.names("F", "k") == ["a"]
        [found] = await node.slice("S", "k")
        assert [column["name"] for column in found["columns"]] == ["y"]
        assert (await node.slice("F", "l"))[0]["timestamp"] == 4

    story(told())


def test_the_lowest_timestamp_is_that_of_nothing() -> None:
    async def run() -> None:
        node = WideNode(replicated=True)
        await node.begin({"createColumnFamily": "F"})
        lowest = Int64(-(1 << 63))
        insert = {"wcInsert": "F", "key": "k", "column": "c", "value": "v", "timestamp": lowest}
        one = {"key": "k", "columnFamily": "F", "insert": {"name": "c", "value": "v", "timestamp": lowest}}
        for command in (
            insert,
            {**insert, "ttl": 5},
            {"wcRemove": "F", "key": "k", "timestamp": lowest},
            {"wcBatchMutate": 1, "mutations": [one]},
            {"wcBatchMutate": 1, "mutations": [one, {**one, "key": "l"}]},
        ):
            code, why = await node.refused(command)
            assert (code, why) == (2, "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]")
        assert await node.slice("F", "k") == []
        await node.insert("F", "k", "c", "v", Int64(1 - (1 << 63)))
        assert await node.names("F", "k") == ["c"]
        assert (await node.wide({"wcGetCount": "F", "key": "k"}))["n"] == 1

    asyncio.run(run())
