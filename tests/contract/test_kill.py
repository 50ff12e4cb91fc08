"""A process that writes is killed at any moment: nothing acknowledged is lost, and nothing is half done."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from docstore.bson import from_python
from docstore.collection.store import Store
from docstore.storage import open_engine
from tests.contract.endless_writer import KEPT, NAMES, SESSION
from tests.unit.collection.building import check, entries, plain, ticking

ROUNDS = 10


def write_until_killed(directory: Path, lines: int, program: str = "endless_writer") -> int:
    """Kill the writer after so many acknowledgements; the number of the last unit that it has acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.contract.{program}", str(directory)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    acknowledged = 0
    for _ in range(lines):
        acknowledged = int(process.stdout.readline())
    process.kill()
    rest = process.stdout.read().split(b"\n")[:-1]
    process.wait()
    return int(rest[-1]) if rest else acknowledged


def recovered(directory: Path, acknowledged: int) -> int:
    """Check what a new process finds; the number of the last unit that it holds."""
    store = Store(open_engine("rocksdb", str(directory)), clock=ticking(1_900_000_000))
    store.attach_oplog(1 << 20)
    check(store)
    left, right, total = (store.catalog.collections[ns] for ns in NAMES)
    found = total.by_id(store.engine, from_python(0))
    assert found is not None
    last = int(plain(found[1])["n"])
    assert acknowledged <= last <= acknowledged + 1
    assert [plain(raw)["_id"] for raw in right.documents(store.engine)] == list(range(1, last + 1))
    assert [plain(raw)["_id"] for raw in left.documents(store.engine)] == list(range(max(1, last - KEPT + 1), last + 1))
    assert (right.count, total.count) == (last, 1)
    assert store.sessions.statement(SESSION, last // 10, last) == store.last_optime
    assert store.oplog is not None
    assert store.oplog.next_timestamp() > store.last_optime.timestamp
    logged = [plain(entry) for entry in entries(store)]
    assert logged[-1]["stmtId"] == last
    store.engine.close()
    return last


@pytest.mark.timeout(60)
def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    last = 0
    for _ in range(ROUNDS):
        acknowledged = write_until_killed(tmp_path, rng.randrange(1, 400))
        assert acknowledged > last, f"seed {seed}"
        last = recovered(tmp_path, acknowledged)


@pytest.mark.timeout(60)
def test_a_killed_build_leaves_whole_indexes_only(tmp_path: Path) -> None:
    rng = random.Random()
    for _ in range(4):
        write_until_killed(tmp_path, rng.randrange(1, 4), "endless_builder")
        store = Store(open_engine("rocksdb", str(tmp_path)), clock=ticking(1_900_000_000))
        store.attach_oplog(1 << 20)
        check(store)
        assert not (tmp_path / "loading").exists()
        store.engine.close()
