"""Finds with `allowPartialResults`: a shard that cannot be reached is missing from the results, which say so."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code
from mongos.merge import merged
from tests.unit.mongos.local import LocalCluster
from tests.unit.mongos.test_relay import filled
from tests.unit.node.local import loop

ON_A = list(range(10))
"""The documents of the shard that stays."""
FINDS: dict[str, dict[str, Any]] = {
    "all": {"find": "c"},
    "sorted": {"find": "c", "sort": {"_id": 1}, "projection": {"x": 0}},
    "skipped and limited": {"find": "c", "sort": {"_id": 1}, "limit": 30},
    "with a time": {"find": "c", "maxTimeMS": 60000},
}


async def read(cluster: LocalCluster, command: dict[str, Any]) -> tuple[list[int], list[bool]]:
    """(the ids, whether each batch says that it is partial)."""
    cursor = (await cluster.reply(command))["cursor"]
    found, partial = [row["_id"] for row in cursor["firstBatch"]], [cursor.get("partialResultsReturned", False)]
    while cursor["id"]:
        cursor = (await cluster.reply({"getMore": cursor["id"], "collection": "c", "batchSize": 3}))["cursor"]
        found += [row["_id"] for row in cursor["nextBatch"]]
        partial.append(cursor.get("partialResultsReturned", False))
    return found, partial


@pytest.mark.parametrize("name", FINDS)
def test_a_shard_that_is_not_there_is_missing(name: str) -> None:
    async def story() -> None:
        cluster = (await filled()).relaying
        command = {**FINDS[name], "allowPartialResults": True}
        assert await read(cluster, command) == (list(range(20)), [False])
        cluster.b.gone = True
        assert await read(cluster, command) == (ON_A, [True])
        assert cluster.doubted == ["test.c"]
        reply = await cluster.reply(FINDS[name])
        assert reply["code"] == Code.HostUnreachable
        assert (await cluster.reply({**command, "allowPartialResults": False}))["code"] == Code.HostUnreachable

    loop(story())


def test_the_only_shard_of_the_filter_may_be_missing() -> None:
    async def story() -> None:
        cluster = (await filled()).relaying
        command = {"find": "c", "filter": {"k": 15}, "allowPartialResults": True}
        assert await read(cluster, command) == ([15], [False])
        cluster.b.gone = True
        assert await read(cluster, command) == ([], [True])
        assert await read(cluster, {**command, "filter": {"k": 5}}) == ([5], [False])

    loop(story())


@pytest.mark.parametrize("sort", [None, {"_id": -1}])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_shard_that_goes_while_its_cursor_is_read_ends_the_part(
    sort: dict[str, int] | None, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged, "SLICE_DOCUMENTS", 2)

    async def story() -> None:
        cluster = (await filled()).relaying
        command: dict[str, Any] = {"find": "c", "batchSize": 2, "allowPartialResults": allowed}
        if sort is not None:
            command["sort"] = sort
        cursor = (await cluster.reply(command))["cursor"]
        assert "partialResultsReturned" not in cursor
        found = [row["_id"] for row in cursor["firstBatch"]]
        cluster.b.gone = True
        partial = False
        while cursor["id"]:
            reply = await cluster.reply({"getMore": cursor["id"], "collection": "c", "batchSize": 2})
            if not reply["ok"]:
                assert reply["code"] == Code.HostUnreachable
                break
            cursor = reply["cursor"]
            partial = cursor.get("partialResultsReturned", False)
            found += [row["_id"] for row in cursor["nextBatch"]]
        assert partial is allowed
        assert (sorted(set(found) & set(ON_A)) == ON_A) or not allowed
        assert len(set(found)) == len(found) < 20

    loop(story())


def test_an_error_of_a_shard_that_is_there_ends_the_find() -> None:
    async def story() -> None:
        cluster = (await filled()).relaying
        reply = await cluster.reply({"find": "c", "hint": "none_1", "allowPartialResults": True})
        assert reply["code"] == Code.BadValue

    loop(story())
