"""What a router makes of the cluster time that clients tell it of."""

from __future__ import annotations

import asyncio
import time

from bson.timestamp import Timestamp

from docstore.optime import pack_timestamp
from tests.unit.mongos.local import LocalCluster


async def observed(time: int) -> int:
    cluster = LocalCluster()
    cluster.router.observe_cluster_time(time)
    return cluster.router.cluster_time()


def test_what_a_client_has_heard_elsewhere_the_router_tells_shards_too() -> None:
    later = pack_timestamp(Timestamp(int(time.time()) + 5, 7))
    assert asyncio.run(observed(later)) == later
