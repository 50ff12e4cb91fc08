"""Collections that a router, or a secondary, fills here: all of the results are shown, or none, and nothing stays."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from docstore.errors import Code
from docstore.node.pipeline.map_reduce import drop_idle_outputs, finish_left_outputs
from docstore.node.remote_outputs import MAX_IDLE_SECONDS, RemoteOutputs
from tests.unit.node.local import LocalNode, loop

MADE = f"tmp.agg_out.{uuid4()}"
DROPPED = 17216


def insert(number: int = 1) -> dict[str, Any]:
    return {"insert": MADE, "documents": [{"_id": number}], "intoOutput": True}


def rename() -> dict[str, Any]:
    return {"renameCollection": f"test.{MADE}", "to": "test.out", "dropTarget": True, "fromOutput": True}


async def begun() -> LocalNode:
    """A primary that has made a collection for results and has taken the first of them."""
    node = LocalNode(replicated=True)
    await node.insert("out", {"_id": "old"})
    await node.run({"create": MADE, "forOutput": True})
    await node.run(insert())
    return node


async def refused(node: LocalNode) -> set[int]:
    """The codes with which more results, and showing those that are there, are refused."""
    replies = [await node.reply(insert(2)), await node.reply(rename(), "admin")]
    assert await node.documents("out") == [{"_id": "old"}]
    return {reply["code"] for reply in replies}


def names(node: LocalNode) -> list[str]:
    return [name for name in node.node.store.namespaces("test") if "tmp." in name]


def test_the_primary_that_made_the_collection_takes_the_results_and_shows_them() -> None:
    async def work() -> None:
        node = await begun()
        await finish_left_outputs(node.node)
        await node.run(insert(2))
        await node.run(rename(), "admin")
        assert await node.documents("out") == [{"_id": 1}, {"_id": 2}]
        assert names(node) == []
        assert (await node.reply(rename(), "admin"))["code"] == Code.NamespaceNotFound

    loop(work())


def test_in_a_later_term_nothing_is_taken_or_shown_and_the_collection_goes() -> None:
    async def work() -> None:
        node = await begun()
        assert node.node.store.oplog is not None
        node.node.store.oplog.term += 1
        assert await refused(node) == {Code.InterruptedDueToReplStateChange}
        await finish_left_outputs(node.node)
        assert names(node) == []
        assert Code.InterruptedDueToReplStateChange in await refused(node)
        assert names(node) == []

    loop(work())


def test_a_primary_that_has_not_made_the_collection_refuses_it() -> None:
    async def work() -> None:
        node = await begun()
        node.node.parts[RemoteOutputs] = RemoteOutputs(node.node.store, node.node.clock)
        assert await refused(node) == {Code.InterruptedDueToReplStateChange}

    loop(work())


@pytest.mark.parametrize("made_again", [False, True])
def test_what_was_dropped_is_not_made_anew_for_the_rest_of_the_results(made_again: bool) -> None:
    async def work() -> None:
        node = await begun()
        await node.run({"drop": MADE})
        if made_again:
            await node.insert(MADE, {"_id": 3})
        assert await refused(node) == {DROPPED} if made_again else {DROPPED, Code.NamespaceNotFound}
        assert names(node) == ([f"test.{MADE}"] if made_again else [])

    loop(work())


def test_a_collection_that_nobody_fills_any_more_is_dropped_when_it_has_been_idle_for_long() -> None:
    async def work() -> None:
        node = await begun()
        now = [0.0]
        outputs = node.node.parts[RemoteOutputs] = RemoteOutputs(node.node.store, lambda: now[0])
        collection = node.node.store.collection(f"test.{MADE}")
        assert collection is not None
        outputs.add(collection)
        now[0] = MAX_IDLE_SECONDS - 1
        await node.run(insert(2))
        now[0] = MAX_IDLE_SECONDS + 1
        await drop_idle_outputs(node.node)
        assert names(node) == [f"test.{MADE}"]
        now[0] = 2 * MAX_IDLE_SECONDS
        await drop_idle_outputs(node.node)
        assert names(node) == []
        assert Code.InterruptedDueToReplStateChange in await refused(node)

    loop(work())
