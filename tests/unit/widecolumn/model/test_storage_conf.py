"""The published XML is taken as it stands; what is wrong with a text is said before anything is made."""

from __future__ import annotations

import pytest

from docstore.errors import CommandError
from docstore.sharding.partitioners import RANDOM
from docstore.widecolumn.model.comparator_registry import Registry
from docstore.widecolumn.model.storage_conf import Configuration, parse_storage_conf

BLOG = """
<Keyspace Name="BloggyAppy">
  <!-- column families -->
  <ColumnFamily CompareWith="BytesType" Name="Authors"/>'
  <ColumnFamily CompareWith="BytesType" Name="BlogEntries"/>
  <ColumnFamily CompareWith="TimeUUIDType" Name="TaggedPosts"/>
  <ColumnFamily CompareWith="TimeUUIDType" Name="Comments"
      CompareSubcolumnsWith="BytesType" ColumnType="Super"/>
</Keyspace>
"""


def parse(text: str) -> Configuration:
    return parse_storage_conf(text, Registry())


def test_the_blog_schema_is_read() -> None:
    found = parse(BLOG)
    assert [keyspace.name for keyspace in found.keyspaces] == ["BloggyAppy"]
    families = found.families["BloggyAppy"]
    assert [family.name for family in families] == ["Authors", "BlogEntries", "TaggedPosts", "Comments"]
    assert [family.is_super for family in families] == [False, False, False, True]
    assert len(found.warnings) == 3


def test_a_whole_file_sets_the_partitioner_and_lists_what_it_ignores() -> None:
    found = parse(
        f"""<Storage><ClusterName>Test</ClusterName><Keyspaces>{BLOG}</Keyspaces>
        <Partitioner>org.apache.cassandra.dht.RandomPartitioner</Partitioner>
        <GCGraceSeconds>60</GCGraceSeconds><RpcTimeoutInMillis>5000</RpcTimeoutInMillis></Storage>"""
    )
    assert "ClusterName is ignored: Test" in found.warnings
    assert found.rpc_timeout_ms == 5000
    [keyspace] = found.keyspaces
    assert keyspace.partitioner.name == RANDOM
    assert {family.gc_grace_seconds for family in found.families["BloggyAppy"]} == {60}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<Keyspace/>", "a Keyspace needs a Name"),
        ('<Keyspace Name="System"/>', "reserved"),
        ('<Keyspace Name="a-b"/>', "not a valid keyspace name"),
        ('<Keyspace Name="k"><ColumnFamily Name="a-b"/></Keyspace>', "cannot contain hyphens"),
        ('<Keyspace Name="k"><ColumnFamily Name="a" ColumnType="X"/></Keyspace>', "ColumnFamily a has invalid type X"),
        (
            '<Keyspace Name="k"><ColumnFamily Name="a" CompareSubcolumnsWith="LongType"/></Keyspace>',
            r"CompareSubcolumnsWith is only a valid attribute on super columnfamilies \(not regular columnfamily a\)",
        ),
        ('<Keyspace Name="k"><ColumnFamily Name="a" ColumnSort="x"/></Keyspace>', "ColumnSort is no longer"),
        ('<Keyspace Name="k"><ColumnFamily Name="a" CompareWith="X"/></Keyspace>', "Unable to find comparator class"),
        ('<Keyspace Name="k"><ColumnFamily Name="a"/><ColumnFamily Name="a"/></Keyspace>', "twice"),
        ("< Keyspace Name='k'/>", "line 1, column"),
        ("<Keyspace Name=\u201ck\u201d/>", "line 1, column"),
        ('<!DOCTYPE x [<!ENTITY e "v">]><Keyspace Name="k"/>', "refused"),
    ],
)
def test_what_cannot_be_defined_is_refused(text: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        parse(text)


@pytest.mark.parametrize("text", ["-1", str(1 << 31), "1" * 40, "1_0", "x", ""])
def test_numbers_are_those_that_a_setting_may_be(text: str) -> None:
    with pytest.raises(CommandError, match="RpcTimeoutInMillis must be a whole number"):
        parse_storage_conf(f"<Storage><RpcTimeoutInMillis>{text}</RpcTimeoutInMillis></Storage>", Registry())
