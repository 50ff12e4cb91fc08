"""Hints carried out: for whom they wait, and when they are forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from docstore.widecolumn.model.hint_origin import hint_outdated
from mongos.widecolumn.hints.handoff import Hints
from mongos.widecolumn.hints.log import HintLog


class Cluster:
    """Shards named by the hints; `errors`: what those of a column family or shard are answered."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.done: list[str] = []
        self.asked = 0
        self.now = 1000.0

    async def ask(self, keyspace: str, command: bytes) -> None:
        self.asked += 1
        fields = bson.decode(command)
        for name in (fields["wcInsert"], fields["shard"]):
            if name in self.errors:
                raise self.errors[name]
        self.done.append(fields["key"])

    async def targets(self, keyspace: str, command: bytes) -> frozenset[tuple[str, str]]:
        fields = bson.decode(command)
        return frozenset(((f"{keyspace}.{fields['wcInsert']}", fields["shard"]),))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def hints(tmp_path: Path, cluster: Cluster) -> Iterator[Hints]:
    log = HintLog(tmp_path)
    yield Hints(log, cluster.ask, cluster.targets, lambda: cluster.now, lambda: cluster.now)
    log.close()


def keep(hints: Hints, key: str, shard: str, family: str = "F") -> None:
    asyncio.run(hints.keep("ks", bson.encode({"wcInsert": family, "key": key, "shard": shard})))


def replay(hints: Hints) -> int:
    """Return the number of hints that were carried out or dropped."""
    before = hints.status()["pending"]
    asyncio.run(hints.replay())
    return before - hints.status()["pending"]


def status(hints: Hints, *names: str) -> tuple[Any, ...]:
    return tuple(hints.status()[name] for name in names)


def test_a_shard_that_is_down_holds_back_its_own_hints_alone(hints: Hints, cluster: Cluster) -> None:
    cluster.errors["one"] = CommandError(Code.UnsatisfiableWriteConcern, "no primary")
    for number in range(3):
        keep(hints, f"down{number}", "one")
        keep(hints, f"up{number}", "two")
    assert replay(hints) == 3
    assert cluster.done == ["up0", "up1", "up2"]
    assert cluster.asked == 4, "the other hints of the shard are not tried"
    cluster.errors.clear()
    cluster.now += 3
    assert replay(hints) == 3
    assert cluster.done[3:] == ["down0", "down1", "down2"]
    assert status(hints, "pending", "replayed") == (0, 6)


def test_a_column_family_that_takes_no_writes_holds_back_its_own_hints_alone(hints: Hints, cluster: Cluster) -> None:
    cluster.errors["F"] = CommandError(Code.LockTimeout, "being dropped")
    for number in range(2):
        keep(hints, f"held{number}", "one")
        keep(hints, f"free{number}", "one", "G")
    assert replay(hints) == 2
    assert cluster.done == ["free0", "free1"]


@pytest.mark.parametrize(
    "error",
    [
        CommandError(Code.WriteConcernFailed, "no majority has it", extra={"wcException": "TimedOutException"}),
        CommandError(Code.StaleConfig, "elsewhere"),
        NetworkError("one:1", "gone", sent=True),
    ],
)
def test_a_hint_is_kept_until_it_is_known_to_be_durable(hints: Hints, cluster: Cluster, error: Exception) -> None:
    cluster.errors["one"] = error
    keep(hints, "a", "one")
    assert replay(hints) == 0
    assert status(hints, "pending", "replayed", "refused") == (1, 0, 0)


def test_an_outdated_hint_is_forgotten(hints: Hints, cluster: Cluster) -> None:
    cluster.errors["one"] = hint_outdated("ks.F has been truncated")
    keep(hints, "a", "one")
    assert replay(hints) == 1
    assert status(hints, "pending", "outdated", "replayed") == (0, 1, 0)
