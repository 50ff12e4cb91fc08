"""What stages say of the fields that they read, preserve and copy, and of their halves."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.aggregation.field_dependencies import fields_of_stages
from docstore.aggregation.split import split_pipeline
from docstore.aggregation.stage import Stage
from docstore.bson import document_to_python
from tests.unit.aggregation.running import parsed


def stage(specification: dict[str, Any]) -> Stage:
    (found,) = parsed([specification]).stages
    return found


@pytest.mark.parametrize(
    ("stages", "fields"),
    [
        pytest.param([{"$match": {"a.b": 1}}, {"$project": {"c": 1}}], {"_id", "a", "c"}, id="as far as a projection"),
        pytest.param(
            [{"$sort": {"a": 1}}, {"$group": {"_id": "$b.c"}}, {"$match": {"x": 1}}], {"a", "b"}, id="a group"
        ),
        pytest.param([{"$skip": 1}, {"$limit": 2}, {"$project": {"_id": 0, "c": 1}}], {"_id", "c"}, id="no field"),
        pytest.param([{"$match": {"a": 1}}], None, id="documents as they are"),
        pytest.param([{"$project": {"c": "$a"}}], None, id="calculated fields"),
        pytest.param([{"$match": {"$expr": "$$ROOT"}}, {"$project": {"c": 1}}], None, id="a whole document"),
    ],
)
def test_the_fields_that_determine_what_stages_give(stages: list[dict[str, Any]], fields: set[str] | None) -> None:
    assert fields_of_stages(each.field_dependencies for each in parsed(stages).stages) == fields


@pytest.mark.parametrize(
    ("specification", "preserved"),
    [
        ({"$addFields": {"a.b": 1}}, ["b", "_id"]),
        ({"$project": {"b": 1, "a": "$b"}}, ["b", "_id"]),
        ({"$unset": "a"}, ["b", "_id"]),
        ({"$unwind": {"path": "$a.b", "includeArrayIndex": "b"}}, ["_id"]),
        ({"$lookup": {"from": "x", "as": "a.b", "localField": "b", "foreignField": "c"}}, ["b", "_id"]),
    ],
)
def test_the_fields_that_a_stage_leaves_as_they_are(specification: dict[str, Any], preserved: list[str]) -> None:
    is_preserved = stage(specification).preserved_fields
    assert is_preserved is not None
    assert [name for name in ("a", "b", "_id") if is_preserved(name)] == preserved


def test_a_stage_that_says_nothing_preserves_and_copies_nothing() -> None:
    redact = stage({"$redact": "$$KEEP"})
    assert redact.preserved_fields is None
    assert redact.copied_paths is None
    assert redact.split() is None


def test_the_paths_that_are_plain_copies() -> None:
    group = stage({"$group": {"_id": {"x": "$a.b", "y": {"$add": ["$c", 1]}, "z": "$a.0"}}}).copied_paths
    project = stage({"$project": {"x": "$a", "y": {"$add": ["$c", 1]}, "z": 1}}).copied_paths
    assert group is not None
    assert project is not None
    assert [group(path) for path in ("_id.x", "_id.y", "_id.z", "_id")] == ["a.b", None, None, None]
    assert [project(path) for path in ("x.c", "y", "z", "x.0")] == ["a.c", None, None, None]


def test_a_sort_is_done_by_shards_and_by_the_merge_a_group_by_states() -> None:
    sort = stage({"$sort": {"a": -1}}).split()
    group = stage({"$group": {"_id": "$a", "n": {"$sum": "$b"}}}).split()
    assert sort is not None
    assert (sort.merging, sort.order is not None and sort.order.fields) == (None, (("a", -1),))
    assert group is not None
    assert group.merging is not None
    assert document_to_python(group.on_shards) == {"$group": {"_id": "$a", "n": {"$sum": "$b"}, "$willBeMerged": True}}
    assert document_to_python(group.merging) == {"$group": {"_id": "$_id", "n": {"$sum": "$b"}, "$doingMerge": True}}


def test_metadata_reach_the_merge_only_while_documents_are_as_they_were() -> None:
    searched = {"$match": {"$text": {"$search": "x"}}}
    assert set(split_pipeline(parsed([searched, {"$limit": 2}])).metadata) == {"textScore"}
    assert not split_pipeline(parsed([searched, {"$group": {"_id": "$a"}}])).metadata
    assert not split_pipeline(parsed([searched, {"$project": {"a": 1}}, {"$sort": {"a": 1}}])).metadata
