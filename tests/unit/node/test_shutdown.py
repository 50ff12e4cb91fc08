"""shutdown: who may end, and what is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docstore.errors import Code, CommandError
from tests.unit.node.local import LocalNode, loop


def leaving(node: LocalNode, refusal: CommandError | None) -> list[float]:
    """Let a hand-over have that outcome; the seconds that each was given."""
    given: list[float] = []

    async def hand_over(seconds: float) -> CommandError | None:
        given.append(seconds)
        return refusal

    node.replication.hand_over = hand_over  # type: ignore[method-assign, assignment]
    return given


@pytest.mark.parametrize(("asked", "seconds"), [({}, 15.0), ({"timeoutSecs": 3}, 3.0)])
def test_a_primary_hands_over_before_it_ends(asked: dict[str, Any], seconds: float) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        stopped = asyncio.Event()
        node.node.shutdown = stopped.set
        given = leaving(node, None)

        await node.reply({"shutdown": 1, **asked}, "admin")

        assert (given, stopped.is_set()) == ([seconds], True)

    loop(work())


@pytest.mark.parametrize("force", [False, True])
def test_a_primary_that_nobody_can_follow_ends_only_by_force(force: bool) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        stopped = asyncio.Event()
        node.node.shutdown = stopped.set
        leaving(node, CommandError(Code.ExceededTimeLimit, "No electable secondaries caught up"))

        reply = await node.reply({"shutdown": 1, "force": force}, "admin")

        assert (reply.get("code"), stopped.is_set()) == (None if force else Code.ExceededTimeLimit, force)

    loop(work())
