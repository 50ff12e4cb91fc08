"""Column families while members are killed and stopped: writes and reads of a quorum are as those of one member that
never fails; reads of one member are late at most."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo import ReadPreference
from pymongo.errors import NotPrimaryError, OperationFailure, PyMongoError

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

    def __init__(self, rs: Processes, history: History, rng: random.Random, level: str) -> None:
        self.history = history
        self.level = level
        self.key = history.name
        self.acknowledged = 0
        self.answered = 0
        self._rs = rs
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(act, random.Random(rng.random())), daemon=True)
            for act in (self._write, self._write, self._read, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, act: Callable[[list[Client], random.Random], None], rng: random.Random) -> None:
        clients = [impatient(member) for member in self._rs.members]
        try:
            while not self._stopped.is_set():
                act(clients, rng)
        finally:
            for client in clients:
                client.close()

    def _running(self, clients: list[Client], rng: random.Random) -> Client:
        up = [client for client, member in zip(clients, self._rs.members, strict=True) if member.running]
        return rng.choice(up)

    def _write(self, clients: list[Client], rng: random.Random) -> None:
        client = self._running(clients, rng)
        write = self.history.write(rng.randrange(CELLS), removes=rng.random() < 0.2)
        command: dict[str, Any] = (
            {"wcRemove": "F"} if write.removes else {"wcInsert": "F", "value": str(write.timestamp)}
        )
        command |= {"key": self.key, "column": str(write.cell), "timestamp": Int64(write.timestamp)}
        with contextlib.suppress(PyMongoError):
            client.ks.command({**command, "consistency": self.level})
            write.end = monotonic()
            self.acknowledged += 1

    def _read(self, clients: list[Client], rng: random.Random) -> None:
        client = self._running(clients, rng)
        cell = rng.randrange(CELLS)
        with contextlib.suppress(PyMongoError):
            start = monotonic()
            self.history.read(cell, read(client, self.key, cell, self.level), start)
            self.answered += 1


def impatient(member: Member) -> Client:
    """A client that does not wait for a process that has been stopped."""
    return pymongo.MongoClient(
        member.address, directConnection=True, serverSelectionTimeoutMS=300, socketTimeoutMS=500, retryWrites=False
    )


def read(client: Client, key: str, cell: int, level: str) -> int | None:
    """The timestamp of the value that is there, which is the value too; None where there is none."""
    command = {"wcGet": "F", "key": key, "column": str(cell), "consistency": level}
    try:
        found = client.ks.command(command, read_preference=ReadPreference.NEAREST)["column"]
    except OperationFailure as error:
        if error.code != NOT_FOUND:
            raise
        return None
    assert int(found["value"]) == found["timestamp"]
    return int(found["timestamp"])


KINDS = ("kill the primary", "stop the primary", "cut off the primary", "kill a secondary", "stop a secondary")


def disturb(rs: Processes, rng: random.Random, clients: Clients, kinds: Sequence[str]) -> str:
    """One fault and its end; what it was."""
    kind = rng.choice(kinds)
    primary = rs.wait_primary(timeout=20)
    others = [number for number in range(3) if number != primary]
    if "cut off" in kind:
        cut_off(rs, clients, primary, others)
        return kind
    victim = primary if "primary" in kind else rng.choice(others)
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


def cut_off(rs: Processes, clients: Clients, primary: int, others: list[int]) -> None:
    """Have clients write to a primary that hears of nobody, then the others choose another one, then it comes back."""
    rs.pause(*others)
    tried = len(clients.history.writes) + 4
    wait_until(lambda: len(clients.history.writes) >= tried, 30)
    rs.pause(primary)
    rs.resume(*others)
    rs.wait_primary(others, 20)
    progress(clients)
    rs.resume(primary)
    progress(clients)
    wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)


def progress(clients: Clients, writes: int = 5, reads: int = 20) -> None:
    """Wait until more has been written and read."""
    acknowledged, answered = clients.acknowledged + writes, clients.answered + reads
    wait_until(lambda: clients.acknowledged >= acknowledged and clients.answered >= answered, 30)


def rounds(rs: Processes, seed: int, count: int, kinds: Sequence[str] = KINDS) -> History:
    """A history with so many faults at QUORUM, and all that is there in the end."""
    rng = random.Random(seed)
    history = History(f"row of {seed}")
    clients = Clients(rs, history, rng, "QUORUM")
    try:
        progress(clients)
        for _ in range(count):
            disturb(rs, rng, clients, kinds)
            progress(clients)
    finally:
        clients.stop()
    wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
    for number in range(3):
        for cell in range(CELLS):
            start = monotonic()
            history.read(cell, read(rs[number], history.name, cell, "QUORUM"), start)
    return history


def test_a_quorum_loses_nothing_and_never_goes_back(rs: Processes) -> None:
    history = rounds(rs, seed=20260801, count=1, kinds=KINDS[:1])
    assert history.check() == []
    wait_until(lambda: len(rs.hashes([0, 1, 2], "ks")) == 1, 20)


def test_a_primary_that_was_cut_off_brings_nothing_back(rs: Processes) -> None:
    history = rounds(rs, seed=20260802, count=1, kinds=KINDS[2:3])
    assert history.check() == []
    wait_until(lambda: len(rs.hashes([0, 1, 2], "ks")) == 1, 20)


def test_one_member_is_as_late_as_its_log(rs: Processes) -> None:
    number = rs.wait_primary(timeout=20)
    for timestamp in range(1, 6):
        command = {"wcInsert": "F", "key": "late", "column": "c", "value": str(timestamp), "consistency": "ONE"}
        rs[number].ks.command({**command, "timestamp": Int64(timestamp)})
        wait_until(lambda: len({log_end(client) for client in rs.clients}) == 1, 10)
        wanted = {"wcGet": "F", "key": "late", "column": "c"}
        for client in rs.clients:
            found = client.ks.command(wanted, read_preference=ReadPreference.NEAREST)["column"]
            assert found["timestamp"] == timestamp


def log_end(client: Client) -> str:
    return str(client.admin.command("hello")["lastWrite"]["opTime"])


def refused(act: Callable[[], Any]) -> tuple[int, str, int | None]:
    with pytest.raises(OperationFailure) as caught:
        act()
    details = caught.value.details
    assert details is not None
    return details["code"], details.get("wcException", ""), details.get("cqlCode")


def test_serial_reads_are_the_primarys(rs: Processes) -> None:
    number = rs.wait_primary(timeout=20)
    primary, other = rs[number], rs[(number + 1) % 3]
    command = {"wcInsert": "F", "key": "serial", "column": "c", "value": "1", "timestamp": Int64(1)}
    primary.ks.command({**command, "consistency": "ONE"})
    wanted = {"wcGet": "F", "key": "serial", "column": "c", "consistency": "SERIAL"}
    assert primary.ks.command(wanted)["column"]["value"] == b"1"
    assert primary.ks.command({"wcGetCount": "F", "key": "serial", "consistency": "LOCAL_SERIAL"})["n"] == 1
    rows = {"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}, "consistency": "SERIAL"}
    assert "serial" in [row["key"] for row in primary.ks.command(rows)["rows"]]
    with pytest.raises(NotPrimaryError):
        other.ks.command(wanted, read_preference=ReadPreference.NEAREST)
    assert refused(lambda: primary.ks.command({**command, "consistency": "SERIAL"}))[0] == 2


def test_what_cannot_be_is_told_from_what_was_not_heard_of_in_time(rs: Processes) -> None:
    number = rs.wait_primary(timeout=20)
    primary, others = rs[number], [other for other in range(3) if other != number]
    for name, value in (("readTimeoutMS", 300), ("writeTimeoutMS", 300)):
        primary.admin.command({"setParameter": 1, f"wideColumn.{name}": value})
    primary.ks.command({"cql": "CREATE TABLE t (a int PRIMARY KEY, v int)"})
    write = {"wcInsert": "F", "key": "told", "column": "c", "value": "1"}
    wanted = {"wcGetCount": "F", "key": "told"}
    rs.pause(*others)
    try:
        # Whether the others are known to be gone is a matter of when it is asked; what is said must fit.
        writes = {(64, "TimedOutException", None), (100, "UnavailableException", None)}
        reads = {(50, "TimedOutException", None), (133, "UnavailableException", None)}
        for level in ("TWO", "QUORUM", "EACH_QUORUM"):
            assert refused(lambda level=level: primary.ks.command({**write, "consistency": level})) in writes
            assert refused(lambda level=level: primary.ks.command({**wanted, "consistency": level})) in reads
        assert refused(lambda: primary.ks.command({**wanted, "consistency": "SERIAL"})) in reads
        writes = {(64, "TimedOutException", 0x1100), (100, "UnavailableException", 0x1000)}
        reads = {(50, "TimedOutException", 0x1200), (133, "UnavailableException", 0x1000)}
        cql: dict[str, Any] = {"cql": "INSERT INTO t (a, v) VALUES (1, 2)", "consistency": "QUORUM"}
        assert refused(lambda: primary.ks.command(cql)) in writes
        cql = {"cql": "SELECT * FROM t", "consistency": "QUORUM"}
        assert refused(lambda: primary.ks.command(cql)) in reads
    finally:
        rs.resume(*others)


def test_conditional_writes_come_one_by_one_also_over_a_dead_primary(rs: Processes) -> None:
    primary = rs[rs.wait_primary(timeout=20)]
    primary.ks.command({"cql": "CREATE TABLE counted (a int PRIMARY KEY, v int)"})
    insert = {"cql": "INSERT INTO counted (a, v) VALUES (1, 0) IF NOT EXISTS"}
    assert primary.ks.command(insert)["rows"] == [[True]]
    assert primary.ks.command(insert)["rows"] == [[False, 1, 0]]
    applied: list[int] = []
    stopped = threading.Event()

    def count(rng: random.Random) -> None:
        clients = [impatient(member) for member in rs.members]
        while not stopped.is_set():
            with contextlib.suppress(PyMongoError):
                ks = rng.choice([c for c, member in zip(clients, rs.members, strict=True) if member.running]).ks
                ((seen,),) = ks.command({"cql": "SELECT v FROM counted WHERE a = 1", "consistency": "SERIAL"})["rows"]
                update = {"cql": "UPDATE counted SET v = ? WHERE a = 1 IF v = ?", "params": [seen + 1, seen]}
                if ks.command(update)["rows"][0][0]:
                    applied.append(seen)
        for client in clients:
            client.close()

    threads = [threading.Thread(target=count, args=(random.Random(number),), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(applied) > 10, 20)
        victim = rs.wait_primary(timeout=20)
        rs.kill(victim)
        before = len(applied)
        wait_until(lambda: len(applied) > before + 10, 30)
    finally:
        stopped.set()
        for thread in threads:
            thread.join(30)
        rs.restart(victim)
    wait_until(lambda: sorted(rs.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
    assert len(set(applied)) == len(applied)
    wanted = {"cql": "SELECT v FROM counted", "consistency": "QUORUM"}
    ((total,),) = rs[rs.wait_primary()].ks.command(wanted)["rows"]
    assert total >= len(applied)
    assert total > max(applied)
