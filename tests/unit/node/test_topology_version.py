"""A hello that names a topology version: what is no version is refused with the codes of a real server."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId

from tests.unit.node.local import LocalNode, loop

ABSENT = object()
ZERO = Int64(0)


@pytest.mark.parametrize("name", ["hello", "isMaster"])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"counter": "x"}, 14), ({"counter": {}}, 14), ({"counter": None}, 40414), ({"counter": ABSENT}, 40414),
        ({"counter": 0}, 14), ({"counter": 2.5}, 14), ({"counter": True}, 14), ({"z": 1}, 40415), ({}, None),
        ({"counter": Int64(-1)}, 31372), ({"counter": datetime.datetime(2020, 1, 1)}, 14), ({"processId": "x"}, 14),
        ({"processId": ObjectId(), "counter": Int64(-5)}, 31372), ({"counter": Int64(1 << 40)}, 51764),
        ({"processId": ABSENT}, 40414), ({"processId": ObjectId(), "counter": Int64(99)}, None),
    ],
)  # fmt: skip
def test_what_is_no_topology_version_is_refused(name: str, fields: dict[str, Any], code: int | None) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        own = (await node.run({name: 1}))["topologyVersion"]
        named = {
            name: value
            for name, value in {**own, "counter": Int64(own["counter"]), **fields}.items()
            if value is not ABSENT
        }
        reply = await node.reply({name: 1, "topologyVersion": named, "maxAwaitTimeMS": 1})
        assert reply.get("code") == code, reply

    loop(work())


def test_a_topology_version_and_a_time_to_wait_go_together() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        own = (await node.run({"hello": 1}))["topologyVersion"]
        version = {"processId": own["processId"], "counter": ZERO}
        for fields in (
            {"topologyVersion": version},
            {"maxAwaitTimeMS": 1},
            {"topologyVersion": None, "maxAwaitTimeMS": 1},
        ):
            assert (await node.reply({"hello": 1, **fields}))["code"] == 31368
        wrong = {"processId": own["processId"], "counter": "x"}
        assert (await node.reply({"hello": 1, "topologyVersion": wrong}))["code"] == 14

    loop(work())
