"""`docstore.testing`: deployments start, bear faults, and leave nothing behind, however the test process ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pymongo
import pytest

from docstore.testing import Cluster, ReplicaSet, Standalone, StartFailed
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ("-p", "docstore.testing.pytest_plugin")


def environment(base: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DOCSTORE_TESTING_DIR": str(base),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def processes_of(base: Path) -> list[int]:
    """Those whose command line, directory or files of their own are below the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            links = [os.readlink(link) for link in (path / "fd").iterdir()]
            if (
                any(link.startswith(str(base)) for link in links)
                or str(base).encode() in (path / "cmdline").read_bytes()
            ):
                found.append(int(path.name))
    return found


@contextmanager
def caller(base: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the body and then waits; ready when it has printed its line."""
    # A shell has what it runs in the background, and so its children, ignore SIGINT.
    interruptible = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script = (
        f"{interruptible}from docstore.testing import *\nimport os, time\n{textwrap.dedent(body)}\n"
        "print('up', flush=True)\ninput()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment(base), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def nothing_left(base: Path) -> bool:
    return not processes_of(base) and not list(base.iterdir())


def test_a_node_alone_and_what_it_leaves() -> None:
    with Standalone() as node:
        pid = node.server.pid
        assert pid is not None
        node.client().blog.posts.insert_one({"_id": 1})
        assert node.client().blog.posts.find_one() == {"_id": 1}
        assert "Waiting for connections" in node.server.log()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 20)
    assert node.server.pid is None


def test_a_deployment_is_started_once() -> None:
    node = Standalone(engine="inMemory")
    with node:
        pass
    with pytest.raises(RuntimeError, match="once"):
        node.start()
    with pytest.raises(RuntimeError, match="not running"):
        node.restart("standalone")


def test_what_does_not_start_says_why() -> None:
    with pytest.raises(StartFailed, match="noSuchParameter"):
        Standalone(parameters={"noSuchParameter": 1}).start()
    with pytest.raises(ValueError, match="members must be at least 1"):
        ReplicaSet(members=0)


def test_a_set_of_one_takes_transactions_at_once() -> None:
    with ReplicaSet(members=1) as replica_set, replica_set.client().start_session() as session:
        session.with_transaction(lambda session: replica_set.client().t.t.insert_one({"_id": 1}, session=session))
        assert replica_set.client().t.t.find_one() == {"_id": 1}


def test_faults_of_a_set() -> None:
    with ReplicaSet(members=3, election_seconds=1.0) as replica_set:
        majority = pymongo.WriteConcern("majority")
        client = replica_set.client()
        coll = client.t.get_collection("t", write_concern=majority)
        coll.insert_one({"_id": 0})
        first = replica_set.primary()
        replica_set.pause(first)
        second = replica_set.primary()
        assert second is not first
        # A driver sends a write twice at most: both may go to the member that is paused before it has heard of this.
        wait_until(lambda: client.primary is not None and client.primary[1] == second.port, 20)
        coll.insert_one({"_id": 1})
        replica_set.resume(first)
        replica_set.settle()
        # One that was paused may have been elected again by now.
        before = replica_set.primary()
        replica_set.step_down()
        wait_until(lambda: replica_set.primary() is not before, 20)
        down = replica_set.primary()
        replica_set.shut_down(down)
        assert not down.running
        coll.insert_one({"_id": 2})
        port = down.port
        replica_set.restart(down)
        replica_set.settle()
        assert down.port == port
        assert [row["_id"] for row in coll.find().sort("_id")] == [0, 1, 2]


def test_a_cluster_and_moves_of_chunks() -> None:
    async def work() -> None:
        async with Cluster(shards=2, routers=2) as cluster:
            cluster.shard_collection("t.t", {"k": 1})
            cluster.client().t.t.insert_many({"k": n} for n in range(10))
            cluster.split("t.t", {"k": 5})
            cluster.move_chunk("t.t", {"k": 0}, "shard0")
            cluster.move_chunk("t.t", {"k": 9}, "shard1")
            cluster.kill("router-0")
            cluster.kill(cluster.primary("shard1"))
            cluster.restart("shard1-0")
            cluster.settle()
            assert cluster.client(cluster.primary("shard1")).t.t.count_documents({}) == 5
            with pymongo.MongoClient(cluster.uri) as client:
                assert client.t.t.count_documents({}) == 10
            with pytest.raises(KeyError):
                cluster.kill("shard7-0")

    asyncio.run(work())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_test_process_that_is_killed(how: signal.Signals, tmp_path: Path) -> None:
    body = """
        d = Cluster(shards=1); d.start()
        d.client().t.t.insert_one({})
        assert d.client().t.t.find_one({"$where": "true"})
        d.pause("shard0-0")
    """
    with caller(tmp_path, body) as process:
        assert len(processes_of(tmp_path)) >= 4
        process.send_signal(how)
        process.wait()
        wait_until(lambda: nothing_left(tmp_path), 20)


def test_nothing_is_left_when_a_child_of_the_test_process_lives_on(tmp_path: Path) -> None:
    body = """
        Standalone().start()
        if not os.fork(): time.sleep(60); os._exit(0)
    """
    with caller(tmp_path, body) as process:
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[-1])
        process.kill()
        try:
            process.wait()
            wait_until(lambda: nothing_left(tmp_path), 20)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_process_has_servers_of_its_own(tmp_path: Path) -> None:
    body = """
        first = Standalone(); first.start()
        read, write = os.pipe()
        if not os.fork():
            with Standalone() as second:
                os.write(write, second.uri.encode())
            os._exit(0)
        assert os.read(read, 100).decode() != first.uri
        os.wait()
        first.client().t.t.insert_one({})
    """
    with caller(tmp_path, body):
        pass
    wait_until(lambda: nothing_left(tmp_path), 20)


def test_what_a_killed_zygote_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    with caller(tmp_path, "Standalone().start()") as process:
        zygote = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        os.kill(zygote, signal.SIGKILL)
        wait_until(lambda: not processes_of(tmp_path), 20)
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir())
    with caller(tmp_path, "Standalone().start()"):
        assert len(list(tmp_path.iterdir())) == 1
    wait_until(lambda: nothing_left(tmp_path), 20)


def test_the_plugin_imports_nothing_but_pytest() -> None:
    script = """
        import sys, pytest
        before = set(sys.modules)
        import docstore.testing.pytest_plugin
        print(*sorted(set(sys.modules) - before))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment(ROOT),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [
        "docstore", "docstore.sources", "docstore.testing", "docstore.testing.pytest_plugin"
    ]  # fmt: skip


def pytest_run(directory: Path, tests: str, *arguments: str) -> str:
    (directory / "test_it.py").write_text(textwrap.dedent(tests))
    (directory / "data").mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "--rootdir", directory, *arguments, directory / "test_it.py"],
        cwd=directory, env=environment(directory / "data"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert nothing_left(directory / "data"), processes_of(directory / "data")
    return ran.stdout + ran.stderr


def test_workers_of_xdist_have_servers_of_their_own(tmp_path: Path) -> None:
    tests = """
        import pytest

        @pytest.mark.parametrize("number", range(12))
        def test_empty(docstore_database, number):
            assert docstore_database.list_collection_names() == []
            docstore_database.c.insert_one({"_id": 1})
            assert docstore_database.c.count_documents({}) == 1

        def test_kind(docstore_client):
            assert docstore_client.admin.command("hello").get("setName") is None
    """
    output = pytest_run(tmp_path, tests, "-p", "xdist", "-n", "2", "--docstore-deployment", "standalone")
    assert "13 passed" in output


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    tests = "def test_it(docstore_replica_set): pass"
    assert "docstore_members is a number from 1 on, not '0'" in pytest_run(tmp_path, tests, "-o", "docstore_members=0")
