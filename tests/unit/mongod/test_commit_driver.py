"""The coordinator of a commit: when it answers, and how long it goes on telling participants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.sharding.commitment import Commitment
from mongod.migration.records import Removed
from mongod.migration.shard import Shard
from mongod.transactions import driver
from mongod.transactions.driver import CommitDriver
from mongod.transactions.participants import Participants

PREPARED = {"prepareTimestamp": bson.Timestamp(5, 1)}


class Scene:
    """A coordinator with participants one and two; `answers` what two says to the decision, by its command."""

    def __init__(self, **answers: Any) -> None:
        self.written: list[Any] = []
        self.told: list[tuple[str, str]] = []
        self.removed: set[str] = set()
        self._answers = answers
        records = SimpleNamespace(may_write=lambda: True, write=self.written.append, committed=self._committed)
        oplog = SimpleNamespace(observe=lambda _timestamp: None)
        node = SimpleNamespace(store=SimpleNamespace(oplog=oplog))
        config = SimpleNamespace(is_removed=self._is_removed)
        shard = SimpleNamespace(records=records, node=node, config_servers=lambda: config)
        self.driver = CommitDriver(
            cast(Shard, shard), cast(Participants, self), Commitment(b"l" * 48, 3, ("one", "two"))
        )

    async def _committed(self, _written: Any) -> None:
        """A majority has it at once."""

    async def _is_removed(self, shard: str) -> bool:
        return shard in self.removed

    async def ask(self, shard: str, command: Mapping[str, Any], _seconds: float) -> Mapping[str, Any]:
        name = next(iter(command))
        self.told.append((shard, name))
        answer = self._answers.get(name) if shard == "two" else None
        if isinstance(answer, CommandError):
            raise answer
        return PREPARED if name == "prepareTransaction" else {}


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CARRY_OUT_SECONDS", 0.02)
    monkeypatch.setattr(driver, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(driver, "MAX_RETRY_SECONDS", 0.004)


def test_the_decision_is_told_though_a_participant_does_not_answer() -> None:
    async def test() -> None:
        scene = Scene(commitTransaction=CommandError(Code.HostUnreachable, "no answer"))
        running = asyncio.ensure_future(scene.driver.run(resumed=False))
        assert (await scene.driver.finished).committed
        assert not running.done(), "it goes on telling the participant"
        told = len(scene.told)
        scene._answers.clear()
        await running
        assert len(scene.told) > told
        assert isinstance(scene.written[-1][1], Removed)

    run(test)


def test_no_decision_is_told_before_it_is_made() -> None:
    async def test() -> None:
        scene = Scene(prepareTransaction=CommandError(Code.HostUnreachable, "no answer"))
        running = asyncio.ensure_future(scene.driver.run(resumed=False))
        await asyncio.sleep(3 * driver.CARRY_OUT_SECONDS)
        assert not scene.driver.finished.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(test)


@pytest.mark.parametrize("certain", [True, False])
def test_a_participant_that_was_removed_has_carried_the_decision_out(certain: bool) -> None:
    async def test() -> None:
        scene = Scene(commitTransaction=CommandError(Code.ShardNotFound, "Shard two not found"))
        if certain:
            scene.removed.add("two")
        running = asyncio.ensure_future(scene.driver.run(resumed=False))
        await scene.driver.finished
        if not certain:
            await asyncio.sleep(driver.CARRY_OUT_SECONDS)
            assert not running.done(), "a config server that lags does not know new shards"
            scene.removed.add("two")
        await running
        assert isinstance(scene.written[-1][1], Removed)

    run(test)
