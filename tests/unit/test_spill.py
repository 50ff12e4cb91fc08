"""Blocking stages that have more than fits in memory: the same results by way of the disk, or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import DocumentList
from docstore.errors import Code, CommandError
from docstore.spill import SpillFile
from tests.unit.aggregation.running import drain, parsed
from tests.unit.query.raw import decoded, raw

DOCUMENTS = [raw({"_id": number, "k": number * 7919 % 501, "x": "y" * (number % 90)}) for number in range(30_000)]
STAGES: list[dict[str, Any]] = [
    {"$sort": {"k": 1}},
    {"$group": {"_id": "$k", "n": {"$sum": 1}, "least": {"$min": "$_id"}, "mean": {"$avg": "$_id"}}},
    {"$group": {"_id": {"k": "$k"}, "all": {"$push": "$_id"}}},
    {"$bucketAuto": {"groupBy": "$k", "buckets": 7}},
]


@pytest.mark.parametrize("stage", STAGES)
def test_what_does_not_fit_in_memory_gives_the_same_by_way_of_the_disk(stage: dict[str, Any], tmp_path: Path) -> None:
    def found(environment: Environment) -> list[dict[str, Any]]:
        pipeline = parsed([stage] if "$group" not in stage else [stage, {"$sort": {"_id": 1}}])
        return [decoded(document) for document in drain(pipeline.open(DocumentList(DOCUMENTS), environment))]

    spill = SpillFile(tmp_path)
    in_memory = found(Environment(clock=lambda: 0.0))
    by_disk = found(Environment(clock=lambda: 0.0, memory_limit=200_000, spill=spill))
    spill.close()

    assert by_disk == in_memory
    assert list((tmp_path / "_tmp").iterdir()) == []


@pytest.mark.parametrize("stage", STAGES)
def test_without_the_disk_too_much_is_refused(stage: dict[str, Any]) -> None:
    stream = parsed([stage]).open(DocumentList(DOCUMENTS), Environment(clock=lambda: 0.0, memory_limit=200_000))

    with pytest.raises(CommandError) as refused:
        drain(stream)
    assert refused.value.code == Code.QueryExceededMemoryLimitNoDiskUseAllowed
