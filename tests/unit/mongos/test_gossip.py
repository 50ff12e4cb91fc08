"""What a router makes of the cluster time that clients tell it of."""

from __future__ import annotations

import asyncio
import time

import pytest
from bson.timestamp import Timestamp

from docstore.errors import CommandError
from docstore.optime import pack_timestamp
from tests.unit.mongos.local import LocalCluster


async def observed(seconds: int) -> int:
    cluster = LocalCluster()
    cluster.router.observe_cluster_time({"clusterTime": Timestamp(seconds, 7)})
    return cluster.router.cluster_time()


def test_what_a_client_has_heard_elsewhere_the_router_tells_shards_too() -> None:
    seconds = int(time.time()) + 5
    assert asyncio.run(observed(seconds)) == pack_timestamp(Timestamp(seconds, 7))


def test_a_time_from_the_far_future_is_refused() -> None:
    with pytest.raises(CommandError) as refused:
        asyncio.run(observed(int(time.time()) + 2 * 365 * 24 * 3600))
    assert refused.value.code == 205
