"""Definitions come back from their documents as they were."""

from __future__ import annotations

import pytest

from docstore.errors import CommandError
from docstore.widecolumn.model.column_families import Keyspace, column_family, keyspace_from_options
from docstore.widecolumn.model.comparator_registry import Registry


@pytest.mark.parametrize(
    "options",
    [
        {"columnType": "Standard", "compareWith": "org.apache.cassandra.db.marshal.LongType"},
        {"columnType": "Super", "compareWith": "UTF8Type", "compareSubcolumnsWith": "LongType", "defaultTtl": 5},
        {"columnType": "Table", "table": {"columns": []}},
    ],
)
def test_a_family_comes_back_from_its_options(options: dict[str, object]) -> None:
    family = column_family("f", options, Registry())
    assert family.column_type == options["columnType"]
    assert column_family("f", family.to_options(), Registry()) == family


@pytest.mark.parametrize("options", [{"columnType": "Table"}, {"table": {}}, {"columnType": "Wide"}])
def test_a_type_without_what_it_needs_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(CommandError, match="has invalid type"):
        column_family("f", options, Registry())


def test_a_keyspace_comes_back_from_its_options() -> None:
    keyspace = Keyspace(name="k", replication_factor=3, datacenters={"datacenter1": 3})
    assert keyspace_from_options("k", keyspace.to_options()) == keyspace
