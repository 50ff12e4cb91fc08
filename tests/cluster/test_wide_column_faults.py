"""Column families while members are killed and stopped: writes and reads of a quorum are as those of one member that
never fails; reads of one member are late at most."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo import ReadPreference
from pymongo.errors import OperationFailure, PyMongoError

from scripts.deployment import Member
from tests.cluster.replica_set_processes import Client, Processes, running_set
from tests.harness.cell_history import History
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
CELLS = 4
NOT_FOUND = 47


@pytest.fixture(scope="module")
def rs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running_set(tmp_path_factory.mktemp("faults"), 3) as processes:
        primary = processes[processes.wait_primary()]
        primary.admin.command({"createKeyspace": "ks", "replication": {"replicationFactor": 3}})
        primary.ks.command({"createColumnFamily": "F", "gcGraceSeconds": 2})
        for number in range(3):
            wait_until(lambda number=number: has_family(processes[number]), 10)  # type: ignore[misc]
            processes[number].admin.command({"setParameter": 1, "wideColumn.collectionSecs": 1})
        yield processes


def has_family(client: Client) -> bool:
    with contextlib.suppress(PyMongoError):
        described = client.ks.command({"describeKeyspace": 1}, read_preference=ReadPreference.NEAREST)
        return bool(described["columnFamilies"])
    return False


class Clients:
    """Writers and readers of a set, each on a thread with connections of its own, until `stop`."""

    def __init__(self, rs: Processes, history: History, dice: random.Random, level: str) -> None:
        self.history = history
        self.level = level
        self.acknowledged = 0
        self.answered = 0
        self._rs = rs
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(act, random.Random(dice.random())), daemon=True)
            for act in (self._write, self._write, self._read, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, act: Callable[[list[Client], random.Random], None], dice: random.Random) -> None:
        clients = [impatient(member) for member in self._rs.members]
        try:
            while not self._stopped.is_set():
                act(clients, dice)
        finally:
            for client in clients:
                client.close()

    def _running(self, clients: list[Client], dice: random.Random) -> Client:
        up = [client for client, member in zip(clients, self._rs.members, strict=True) if member.running]
        return dice.choice(up)

    def _write(self, clients: list[Client], dice: random.Random) -> None:
        client = self._running(clients, dice)
        write = self.history.write(dice.randrange(CELLS), removes=dice.random() < 0.2)
        command: dict[str, Any] = (
            {"wcRemove": "F"} if write.removes else {"wcInsert": "F", "value": str(write.timestamp)}
        )
        command |= {"key": "k", "column": str(write.cell), "timestamp": Int64(write.timestamp)}
        with contextlib.suppress(PyMongoError):
            client.ks.command({**command, "consistency": self.level})
            write.end = monotonic()
            self.acknowledged += 1

    def _read(self, clients: list[Client], dice: random.Random) -> None:
        client = self._running(clients, dice)
        cell = dice.randrange(CELLS)
        with contextlib.suppress(PyMongoError):
            start = monotonic()
            self.history.read(cell, read(client, cell, self.level), start)
            self.answered += 1


def impatient(member: Member) -> Client:
    """A client that does not wait for a process that has been stopped."""
    return pymongo.MongoClient(
        member.address, directConnection=True, serverSelectionTimeoutMS=300, socketTimeoutMS=1000, retryWrites=False
    )


def read(client: Client, cell: int, level: str) -> int | None:
    """The timestamp of the value that is there, which is the value too; None where there is none."""
    command = {"wcGet": "F", "key": "k", "column": str(cell), "consistency": level}
    try:
        found = client.ks.command(command, read_preference=ReadPreference.NEAREST)["column"]
    except OperationFailure as error:
        if error.code != NOT_FOUND:
            raise
        return None
    assert int(found["value"]) == found["timestamp"]
    return int(found["timestamp"])


def disturb(rs: Processes, dice: random.Random, clients: Clients) -> str:
    """One fault and its end; what it was."""
    kind = dice.choice(("kill the primary", "stop the primary", "kill a secondary", "stop a secondary"))
    primary = rs.wait_primary(timeout=20)
    others = [number for number in range(3) if number != primary]
    victim = primary if "primary" in kind else dice.choice(others)
    left = [number for number in range(3) if number != victim]
    if "kill" in kind:
        rs.kill(victim)
    else:
        rs.pause(victim)
    progress(clients)
    rs.wait_primary(left, 20)
    progress(clients)
    if "kill" in kind:
        rs.restart(victim)
    else:
        rs.resume(victim)
    progress(clients)
    wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
    return kind


def progress(clients: Clients, writes: int = 5, reads: int = 20) -> None:
    """Wait until more has been written and read."""
    acknowledged, answered = clients.acknowledged + writes, clients.answered + reads
    wait_until(lambda: clients.acknowledged >= acknowledged and clients.answered >= answered, 30)


def rounds(rs: Processes, seed: int, count: int) -> History:
    """A history with so many faults at QUORUM, and all that is there in the end."""
    dice = random.Random(seed)
    history = History()
    clients = Clients(rs, history, dice, "QUORUM")
    try:
        progress(clients)
        for _ in range(count):
            disturb(rs, dice, clients)
            progress(clients)
    finally:
        clients.stop()
    wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
    for number in range(3):
        for cell in range(CELLS):
            start = monotonic()
            history.read(cell, read(rs[number], cell, "QUORUM"), start)
    return history


def test_a_quorum_loses_nothing_and_never_goes_back(rs: Processes) -> None:
    history = rounds(rs, seed=20260801, count=2)
    assert history.check() == []
    wait_until(lambda: len(rs.hashes([0, 1, 2], "ks")) == 1, 20)
