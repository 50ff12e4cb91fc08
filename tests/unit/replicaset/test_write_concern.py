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
from docstore.replication.states import Role
from tests.harness.serving import run, until

CONFIG = parse_config(
    {"_id": "rs", "version": 1, "term": 1, "members": [{"_id": n, "host": f"h:{n + 1}"} for n in range(3)]}
)


@dataclass
class Primary:
    """What is asked of a state."""

    config: Any
    term: int
    role: Role
    commit_point: OpTime


def waiters_on(state: Primary, *, in_log: bool = True) -> WriteConcernWaiters:
    flusher = cast(GroupFlusher, SimpleNamespace(flush_soon=lambda: None, durable=OpTime(1, 20), is_idle=False))
    return WriteConcernWaiters(lambda: cast(State, state), flusher, lambda: 0.0, in_log=lambda _optime: in_log)


def test_a_commit_point_of_a_later_term_acknowledges_nothing() -> None:
    """It is later than the write, but the write may have been rolled back before."""

    async def scenario() -> None:
        state = Primary(CONFIG, 1, Role.LEADER, OpTime(1, 10))
        waiters = waiters_on(state)
        asked = asyncio.ensure_future(waiters.wait(OpTime(1, 20), WriteConcern(w="majority"), None))
        await until(lambda: len(waiters._waiters) == 1)
        state.term, state.role, state.commit_point = 2, Role.FOLLOWER, OpTime(2, 15)
        waiters.wake()
        failed = await asked
        assert failed is not None
        assert failed["codeName"] == "PrimarySteppedDown"

    run(scenario())


def test_a_write_that_was_committed_before_the_term_ended_is_acknowledged() -> None:
    async def scenario() -> None:
        state = Primary(CONFIG, 1, Role.LEADER, OpTime(1, 10))
        waiters = waiters_on(state)
        asked = asyncio.ensure_future(waiters.wait(OpTime(1, 20), WriteConcern(w="majority"), None))
        await until(lambda: len(waiters._waiters) == 1)
        state.commit_point = OpTime(1, 20)
        waiters.wake()
        state.term, state.role = 2, Role.FOLLOWER
        waiters.wake()
        assert await asked is None

    run(scenario())


def test_a_write_whose_entry_is_gone_is_not_acknowledged_by_the_log_of_a_later_term() -> None:
    """The primary lost its office and won it again between the write and the wait."""

    async def scenario() -> None:
        state = Primary(CONFIG, 3, Role.LEADER, OpTime(3, 25))
        failed = await waiters_on(state, in_log=False).wait(OpTime(1, 20), WriteConcern(w="majority"), None)
        assert failed is not None
        assert failed["codeName"] == "PrimarySteppedDown"
        assert await waiters_on(state).wait(OpTime(1, 20), WriteConcern(w="majority"), None) is None

    run(scenario())


def test_what_is_safe_already_is_flushed_only_where_something_was_written_behind_it() -> None:
    async def scenario() -> None:
        asked: list[None] = []
        state = Primary(CONFIG, 1, Role.LEADER, OpTime(1, 20))
        flusher = SimpleNamespace(flush_soon=lambda: asked.append(None), durable=OpTime(1, 20), is_idle=True)
        waiters = WriteConcernWaiters(
            lambda: cast(State, state), cast(GroupFlusher, flusher), lambda: 0.0, in_log=lambda _optime: True
        )
        assert await waiters.wait(OpTime(1, 20), WriteConcern(w="majority", j=True), None) is None
        assert asked == []
        flusher.is_idle = False
        assert await waiters.wait(OpTime(1, 20), WriteConcern(w="majority", j=True), None) is None
        assert len(asked) == 1
        flusher.is_idle, state.commit_point = True, OpTime(1, 15)
        failed = await waiters.wait(OpTime(1, 20), WriteConcern(w="majority", timeout_ms=5), None)
        assert failed is not None
        assert len(asked) == 2

    run(scenario())
