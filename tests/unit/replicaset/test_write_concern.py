"""What a waiting writer is told when the primary that took its write is no longer one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from docstore.commands.concerns import WriteConcern
from docstore.optime import OpTime
from docstore.replicaset.flusher import GroupFlusher
from docstore.replicaset.write_concern import WriteConcernWaiters
from docstore.replication.config import parse_config
from docstore.replication.state import State
from tests.harness.serving import run, until

CONFIG = parse_config(
    {"_id": "rs", "version": 1, "term": 1, "members": [{"_id": n, "host": f"h:{n + 1}"} for n in range(3)]}
)


@dataclass
class Primary:
    """What is asked of a state."""

    config: Any
    term: int
    writable: bool
    commit_point: OpTime


def test_a_commit_point_of_a_later_term_acknowledges_nothing() -> None:
    """It is later than the write, but the write may have been rolled back before."""

    async def scenario() -> None:
        state = Primary(CONFIG, 1, True, OpTime(1, 10))
        flusher = cast(GroupFlusher, SimpleNamespace(flush_soon=lambda: None, durable=OpTime(1, 20)))
        waiters = WriteConcernWaiters(lambda: cast(State, state), flusher, lambda: 0.0)
        asked = asyncio.ensure_future(waiters.wait(OpTime(1, 20), WriteConcern(w="majority"), None))
        await until(lambda: len(waiters._waiters) == 1)
        state.term, state.writable, state.commit_point = 2, False, OpTime(2, 15)
        waiters.wake()
        failed = await asked
        assert failed is not None
        assert failed["codeName"] == "PrimarySteppedDown"

    run(scenario())


def test_a_write_that_was_committed_before_the_term_ended_is_acknowledged() -> None:
    async def scenario() -> None:
        state = Primary(CONFIG, 1, True, OpTime(1, 10))
        flusher = cast(GroupFlusher, SimpleNamespace(flush_soon=lambda: None, durable=OpTime(1, 20)))
        waiters = WriteConcernWaiters(lambda: cast(State, state), flusher, lambda: 0.0)
        asked = asyncio.ensure_future(waiters.wait(OpTime(1, 20), WriteConcern(w="majority"), None))
        await until(lambda: len(waiters._waiters) == 1)
        state.commit_point = OpTime(1, 20)
        waiters.wake()
        state.term, state.writable = 2, False
        waiters.wake()
        assert await asked is None

    run(scenario())
