"""Time-series collections on a real server and on a node in this process: the same answers, and the same buckets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.differential import timeseries
from tests.differential.pair import OPTIONS, Command, Pair
from tests.harness.reference import reference_server

pytestmark = pytest.mark.reference


@pytest.fixture
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=30_000) as client,
    ):
        yield client.get_database("test", codec_options=OPTIONS)


async def compare(pair: Pair, commands: list[Command]) -> list[str]:
    """What differs. The order of fields is that of a hash there, so it does not count."""
    differing = []
    for command in commands:
        theirs, ours = map(_unordered, await pair.both(command))
        if theirs != ours:
            differing.append(f"{command}\n  reference {theirs}\n  ours      {ours}")
    return differing


def _unordered(found: Any) -> Any:
    return json.loads(found) if isinstance(found, str) else found


async def buckets(pair: Pair, name: str) -> list[str]:
    """What of the buckets differs: that of `_id` which is not the time, and the form of those that are closed."""
    order = {"control.min.t": 1, "meta": 1, "control.max.t": 1, "control.min._id": 1}
    shown = {"control": 1, "meta": 1, "data.t": 1}
    command = {"find": f"system.buckets.{name}", "sort": order, "projection": shown, "batchSize": 5000}
    found = await pair.both(command)
    assert all(isinstance(each, str) for each in found), found
    theirs, ours = ([_shape(each) for each in _unordered(one)] for one in found)
    if len(theirs) != len(ours):
        return [f"{len(theirs)} buckets of the reference, {len(ours)} of ours"]
    differing = [(one, other) for one, other in zip(theirs, ours, strict=True) if one != other]
    return [f"bucket\n  reference {one}\n  ours      {other}" for one, other in differing]


def _shape(bucket: dict[str, Any]) -> Any:
    control = bucket["control"]
    size = control.get("count") or len(bucket["data"]["t"])
    return bucket["_id"]["$oid"][:8], control["min"], control["max"], bucket.get("meta"), "meta" in bucket, size


def test_everything_is_answered_alike(reference: Database[dict[str, Any]]) -> None:
    async def work() -> list[str]:
        pair = Pair(reference)
        differing = await compare(pair, [*timeseries.CREATED, *timeseries.SHAPES])
        differing += await buckets(pair, "b")
        rest = (timeseries.READ, timeseries.CHANGED, timeseries.INDEXED, timeseries.DEFINED)
        return differing + await compare(pair, [command for commands in rest for command in commands])

    differing = asyncio.run(work())
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:5])


def test_what_is_no_measurement_is_refused_alike(reference: Database[dict[str, Any]]) -> None:
    """A real server counts refused measurements as written, so only the errors are compared."""

    async def work() -> None:
        pair = Pair(reference)
        await pair.both(timeseries.CREATED[1])
        for command in timeseries.REFUSED:
            theirs, ours = map(_unordered, await pair.both(command))
            assert ours[0] == theirs[0], command
            assert ours[1] == 0

    asyncio.run(work())


def test_buckets_are_filled_alike(reference: Database[dict[str, Any]]) -> None:
    """By number, size, and time, in one command and in many."""

    async def work() -> list[str]:
        pair = Pair(reference)
        differing: list[str] = []
        for granularity, step in (("seconds", 1), ("seconds", 60), ("minutes", 700), ("hours", 90_000)):
            await pair.both({"drop": "s"})
            await pair.both(
                {"create": "s", "timeseries": {"timeField": "t", "metaField": "m", "granularity": granularity}}
            )
            rows = [{"_id": n, "t": timeseries.at(seconds=step * n), "m": n % 2, "a": n} for n in range(2500)]
            differing += await compare(pair, [{"insert": "s", "documents": rows}])
            for seconds in (0, 10, 3600, 3599, 3601, 5, -1, 7200):
                row = {"_id": seconds, "t": timeseries.T + timedelta(seconds=seconds), "m": "single", "a": "y" * 20_000}
                differing += await compare(pair, [{"insert": "s", "documents": [row]}])
            differing += await buckets(pair, "s")
            differing += await compare(pair, [{"count": "s", "query": {"m": 1}}])
        return differing

    differing = asyncio.run(work())
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:5])
