"""The blog of the published schema, worked through."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.unit.widecolumn.node.wide_columns import WideNode, time_uuid

SCHEMA = """
<Keyspace Name="ks">
    <!-- CF definitions -->
    <ColumnFamily CompareWith="BytesType" Name="Authors"/>
    <ColumnFamily CompareWith="BytesType" Name="BlogEntries"/>
    <ColumnFamily CompareWith="TimeUUIDType" Name="TaggedPosts"/>
    <ColumnFamily CompareWith="TimeUUIDType" Name="Comments"
        CompareSubcolumnsWith="BytesType" ColumnType="Super"/>
</Keyspace>
"""
FIRST = 1250558004


def blog(story: Callable[[WideNode], Awaitable[None]]) -> None:
    async def run() -> None:
        node = WideNode()
        await node.run({"loadStorageConf": SCHEMA}, "admin")
        await story(node)

    asyncio.run(asyncio.wait_for(run(), 30))


def test_the_schema_is_as_published() -> None:
    async def story(node: WideNode) -> None:
        described = await node.wide({"describeKeyspace": 1})
        assert [
            (family["name"], family["columnType"], family["compareWith"].rpartition(".")[2])
            for family in described["columnFamilies"]
        ] == [
            ("Authors", "Standard", "BytesType"),
            ("BlogEntries", "Standard", "BytesType"),
            ("Comments", "Super", "TimeUUIDType"),
            ("TaggedPosts", "Standard", "TimeUUIDType"),
        ]
        again = await node.run({"loadStorageConf": SCHEMA}, "admin")
        assert again["keyspaces"] == ["ks"]
        code, _ = await node.refused({"loadStorageConf": SCHEMA.replace("TimeUUIDType", "LongType")}, "admin")
        assert code == 48
        code, text = await node.refused({"loadStorageConf": "< Keyspace Name='x'/>"}, "admin")
        assert (code, text.partition(",")[0]) == (9, "line 1")

    blog(story)


def test_columns_of_an_author_and_an_entry_stand_bytewise() -> None:
    async def story(node: WideNode) -> None:
        for name in ("numPosts", "twitter", "email", "bio"):
            await node.insert("Authors", "Arin Sarkissian", name, "11")
        assert await node.names("Authors", "Arin Sarkissian") == ["bio", "email", "numPosts", "twitter"]
        for name in ("title", "body", "author", "tags", "pubDate", "slug"):
            await node.insert("BlogEntries", "i-got-a-new-guitar", name, "x")
        ordered = ["author", "body", "pubDate", "slug", "tags", "title"]
        assert await node.names("BlogEntries", "i-got-a-new-guitar") == ordered
        await node.insert("Authors", "Zo\u00eb \U0001f3b8", "bio", "x")
        assert await node.names("Authors", "Zo\u00eb \U0001f3b8") == ["bio"]

    blog(story)


def test_the_latest_ten_entries_of_a_tag_and_the_page_behind_them() -> None:
    async def story(node: WideNode) -> None:
        order = list(range(12))
        random.Random(7).shuffle(order)
        for number in order:
            for tag in ("foo", "__notag__"):
                await node.insert("TaggedPosts", tag, time_uuid(FIRST + 100 * number), f"e{number}")
        assert (await node.wide({"wcGetCount": "TaggedPosts", "key": "foo"}))["n"] == 12
        page = await node.slice("TaggedPosts", "foo", reversed=True, count=10)
        assert [column["value"] for column in page] == [f"e{number}" for number in range(11, 1, -1)]
        rest = await node.slice("TaggedPosts", "foo", start=page[-1]["name"], reversed=True, count=10)
        assert [column["value"] for column in rest] == ["e2", "e1", "e0"]
        newest = await node.slice("TaggedPosts", "__notag__", reversed=True, count=10)
        assert newest == page
        for slug in ("another-cool-guitar", "scream-is-the-best-movie-ever"):
            await node.insert("TaggedPosts", "same", time_uuid(FIRST), slug)
        assert [found["value"] for found in await node.slice("TaggedPosts", "same")] == [
            "scream-is-the-best-movie-ever"
        ]
        random_uuid = {"wcInsert": "TaggedPosts", "key": "foo", "column": "537fd200-8b94-41de-8000-010203040506"}
        assert await node.refused({**random_uuid, "value": ""}) == (2, "Invalid version for TimeUUID type.")

    blog(story)


def test_comments_come_oldest_first() -> None:
    async def story(node: WideNode) -> None:
        slug = "scream-is-the-best-movie-ever"
        seconds = (1250557004, 1250438004, 1250558004)
        for second in seconds:
            columns = [
                {"name": name, "value": str(second)} for name in ("commenter", "email", "comment", "commentTime")
            ]
            insertion = {"insertSuper": {"name": time_uuid(second), "columns": columns}}
            await node.wide({"wcBatchMutate": 1, "mutations": [{"key": slug, "columnFamily": "Comments", **insertion}]})
        found = await node.slice("Comments", slug)
        assert [comment["name"] for comment in found] == [time_uuid(second) for second in sorted(seconds)]
        inner = [column["name"] for column in found[0]["columns"]]
        assert inner == ["comment", "commentTime", "commenter", "email"]
        one = await node.wide({"wcGet": "Comments", "key": slug, "superColumn": time_uuid(1250438004)})
        assert set(one["superColumn"]) == {"name", "columns"}

    blog(story)


def test_the_front_page_takes_three_requests() -> None:
    async def story(node: WideNode) -> None:
        for number, author in enumerate(("ann", "bob", "ann")):
            slug = f"entry-{number}"
            await node.insert("TaggedPosts", "__notag__", time_uuid(FIRST + number), slug)
            await node.insert("BlogEntries", slug, "author", author)
        await node.insert("TaggedPosts", "__notag__", time_uuid(FIRST + 9), "unwritten")
        for author in ("ann", "bob"):
            await node.insert("Authors", author, "bio", f"I am {author}")
        slugs = [found["value"] for found in await node.slice("TaggedPosts", "__notag__", reversed=True, count=10)]
        assert slugs == ["unwritten", "entry-2", "entry-1", "entry-0"]
        multiget = {"predicate": {"sliceRange": {}}, "bytesAs": "string"}
        entries = (await node.wide({"wcMultigetSlice": "BlogEntries", "keys": slugs, **multiget}))["rows"]
        assert [row["key"] for row in entries] == slugs
        assert entries[0]["columns"] == []
        names = [row["columns"][0]["value"] for row in entries[1:]]
        authors = (await node.wide({"wcMultigetSlice": "Authors", "keys": names, **multiget}))["rows"]
        assert [row["key"] for row in authors] == ["ann", "bob"]

    blog(story)
