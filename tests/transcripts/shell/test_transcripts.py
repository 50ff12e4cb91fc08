"""Every transcript in this folder holds, typed into the shell in front of our servers and of real ones where they are.

Folders say what the shell is connected to: a lone node, the one member of a set (`set`), a router over one shard
(`cluster`, only ours), and a real set for what our servers refuse so far (`unserved`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.deployment import Deployment as Processes
from scripts.deployment import Member, replica_set, stopped_at_end
from shell.wire_client import ConnectionLost, WireClient
from tests.harness.reference import reference_server
from tests.harness.waiting import wait_until
from tests.transcripts.shell.runner import DATABASE, Shell, matches, read_transcript

HERE = Path(__file__).parent
SET = "rs"

pytestmark = pytest.mark.cluster


class Server:
    """A server and the shell in front of it, which all transcripts share until one of them fails."""

    def __init__(self, home: Path, port: int, *, pasting: bool) -> None:
        self._pasting = pasting
        self.address = f"127.0.0.1:{port}"
        self._home = home
        self._client = WireClient(("127.0.0.1", port), timeout=5)
        self._shell: Shell | None = None

    def run(self, command: dict[str, Any]) -> dict[str, Any]:
        return self._client.run_document({**command, "$db": command.get("$db", "admin")})

    def initiate(self) -> None:
        """Make it the only member of a set, and wait until it is primary."""
        wait_until(self.answers, 30)
        members = [{"_id": 0, "host": self.address}]
        self.run({"replSetInitiate": {"_id": SET, "members": members}})
        wait_until(lambda: self.run({"hello": 1}).get("isWritablePrimary"), 30)

    def answers(self) -> bool:
        try:
            return bool(self.run({"ping": 1}).get("ok"))
        except ConnectionLost:
            return False

    def check(self, path: Path) -> None:
        self.run({"dropDatabase": 1, "$db": DATABASE})
        if self._shell is None:
            self._shell = Shell(self._home, self.address, pasting=self._pasting)
        shell, self._shell = self._shell, None
        try:
            for step, printed in shell.play(read_transcript(path)):
                assert matches(step.expected, printed), "\n".join(
                    (str(step), "printed:", printed, "expected:", *step.expected)
                )
        except BaseException:
            shell.terminal.close()
            raise
        self._shell = shell

    def close(self) -> None:
        if self._shell is not None:
            self._shell.terminal.close()
        self._client.close()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    processes = Processes(tmp_path_factory.mktemp("node"))
    with stopped_at_end(processes):
        node = Member("node", "mongod", [])
        processes.start(node)
        yield from serving(tmp_path_factory, node.port)


@pytest.fixture(scope="module")
def our_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    processes = Processes(tmp_path_factory.mktemp("set"))
    with stopped_at_end(processes):
        node = Member("node", "mongod", ["--replSet", SET])
        processes.start(node)
        yield from serving(tmp_path_factory, node.port, initiate=True)


@pytest.fixture(scope="module")
def our_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    processes = Processes(tmp_path_factory.mktemp("cluster"))
    with stopped_at_end(processes):
        [shard] = replica_set("shard1", 1, [])
        config = Member("config", "configsvr", [])
        processes.start(shard, config)
        setup = WireClient(("127.0.0.1", shard.port), timeout=5)
        members = [{"_id": 0, "host": shard.address}]
        setup.run_document({"replSetInitiate": {"_id": "shard1", "members": members}, "$db": "admin"})
        wait_until(lambda: setup.hello().get("isWritablePrimary"), 30)
        setup.close()
        router = Member("router", "mongos", ["--configdb", config.address])
        processes.start(router)
        added = WireClient(("127.0.0.1", router.port), timeout=5)
        assert added.run_document({"addShard": f"shard1/{shard.address}", "name": "shard1", "$db": "admin"})["ok"]
        added.close()
        yield from serving(tmp_path_factory, router.port)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with reference_server(tmp_path_factory.mktemp("real")) as port:
        yield from serving(tmp_path_factory, port, pasting=True)


@pytest.fixture(scope="module")
def real_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with reference_server(tmp_path_factory.mktemp("real_set"), "--replSet", SET) as port:
        yield from serving(tmp_path_factory, port, initiate=True, pasting=True)


def serving(
    factory: pytest.TempPathFactory, port: int, *, initiate: bool = False, pasting: bool = False
) -> Iterator[Server]:
    server = Server(factory.mktemp("home"), port, pasting=pasting)
    try:
        if initiate:
            server.initiate()
        wait_until(server.answers, 30)
        yield server
    finally:
        server.close()


def transcripts(folder: str) -> pytest.MarkDecorator:
    paths = sorted((HERE / folder).glob("*.txt"))
    assert paths
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


@transcripts(".")
def test_on_our_node(path: Path, ours: Server) -> None:
    ours.check(path)


@transcripts("set")
def test_on_our_set(path: Path, our_set: Server) -> None:
    our_set.check(path)


@transcripts("cluster")
def test_on_our_cluster(path: Path, our_cluster: Server) -> None:
    our_cluster.check(path)


@pytest.mark.reference
@transcripts(".")
def test_on_a_real_node(path: Path, real: Server) -> None:
    real.check(path)


@pytest.mark.reference
@transcripts("set")
def test_on_a_real_set(path: Path, real_set: Server) -> None:
    real_set.check(path)


@pytest.mark.reference
@transcripts("unserved")
def test_on_a_real_set_what_ours_refuses(path: Path, real_set: Server) -> None:
    real_set.check(path)
