"""replSetResizeOplog: the size of a member's oplog and how many hours of it stay."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code
from docstore.node.upkeep.periodic import Housekeeping
from docstore.storage import open_engine
from tests.unit.node.local import LocalNode, loop

MEBIBYTE = 1 << 20


async def _resize(node: LocalNode, **fields: Any) -> Any:
    return await node.reply({"replSetResizeOplog": 1, **fields}, "admin")


def test_limits_are_kept_for_the_next_process() -> None:
    async def work() -> None:
        engine = open_engine("inMemory", "")
        node = LocalNode(replicated=True, engine=engine)
        assert (await _resize(node, size=1000.5))["ok"] == 1
        assert (await _resize(node, minRetentionHours=1.5))["ok"] == 1
        assert (await _resize(node))["ok"] == 1
        again = LocalNode(replicated=True, engine=engine)
        assert (await again.run({"collStats": "oplog.rs"}, "local"))["maxSize"] == 1000 * MEBIBYTE + MEBIBYTE // 2
        assert (await again.run({"serverStatus": 1}, "admin"))["oplogTruncation"]["oplogMinRetentionHours"] == 1.5
        assert (await _resize(again, minRetentionHours=float("nan")))["ok"] == 1
        assert "oplogMinRetentionHours" not in (await again.run({"serverStatus": 1}, "admin"))["oplogTruncation"]

    loop(work())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"size": 989.9}, 51024),
        ({"size": float("nan")}, 51024),
        ({"size": float("inf")}, 51024),
        ({"size": "1000"}, Code.TypeMismatch),
        ({"size": True}, Code.TypeMismatch),
        ({"minRetentionHours": -1}, 51024),
        ({"size": 1000, "writeConcern": {"w": 1}}, Code.InvalidOptions),
    ],
)
def test_bad_limits_are_refused(fields: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        assert (await _resize(node, **fields))["code"] == code
        assert (await node.run({"collStats": "oplog.rs"}, "local"))["maxSize"] == MEBIBYTE
        assert (await _resize(LocalNode(), size=1000))["code"] == Code.NamespaceNotFound

    loop(work())


def test_the_log_is_cut_to_its_size_but_for_the_hours_that_stay() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        oplog = node.node.store.oplog
        assert oplog is not None
        for number in range(4):
            await node.insert("c", {"_id": number, "text": "x" * (MEBIBYTE // 2)})
        oplog.commit_limit = oplog.last.timestamp
        await _resize(node, minRetentionHours=float("inf"))
        await Housekeeping(node.node).run_pass()
        assert oplog.size > 2 * MEBIBYTE
        await _resize(node, minRetentionHours=0)
        await Housekeeping(node.node).run_pass()
        assert 0 < oplog.size <= MEBIBYTE
        status = await node.run({"serverStatus": 1}, "admin")
        assert status["oplogTruncation"]["truncateCount"] == 1

    loop(work())
