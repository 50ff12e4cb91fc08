"""A member says what changes, and nothing while nothing does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.harness.serving import run, until
from tests.unit.replicaset.in_memory_set import in_memory_set


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [getattr(record, "attributes", {}) for record in caplog.records if record.args and record.args == (message,)]


def test_transitions_are_said_once_and_heartbeats_not_at_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with in_memory_set(tmp_path, 2) as members:
            await members.initiate()
            transitions = [
                (line["oldState"], line["newState"]) for line in lines(caplog, "Replica set state transition")
            ]
            assert transitions.count(("STARTUP2", "SECONDARY")) == 1
            assert transitions.count(("SECONDARY", "PRIMARY")) == 1
            assert lines(caplog, "Starting an election, since we've seen no PRIMARY in election timeout period")
            peer = members[0].state.peers[members[1].address]
            await until(lambda: peer.config == members[0].state.config_version and bool(members[1].state.primary))
            caplog.clear()
            heard = peer.heard_at
            await until(lambda: peer.heard_at > heard + 0.5)
            assert [record.args for record in caplog.records if record.name.endswith(("REPL", "ELECTION"))] == []

    run(scenario())
