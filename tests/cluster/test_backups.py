"""Backups of nodes, sets and clusters, made while clients write, and what is restored from them under other names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson.timestamp import Timestamp
from click.testing import CliRunner
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

from docstore.backup import access, creation, moment, repository, restoration
from docstore.backup.chain import Chain, chain_to
from docstore.backup.directories import opened
from docstore.backup.program import main
from docstore.testing import Cluster, ReplicaSet, Standalone
from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.documented import free_ports
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

Client = MongoClient[dict[str, Any]]


def run(*arguments: object, fails: int = 0) -> str:
    """What is printed, with what is said."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == fails, (arguments, result.output, result.exception)
    return result.output


def create(place: Path, uri: str, *options: object) -> str:
    """The name of a new backup."""
    return run("backup", "create", place, "--uri", uri, "--quiet", *options).strip()


class Writer(threading.Thread):
    """Writes 0, 1, ... one after the other, until it is stopped: each when the one before was acknowledged."""

    def __init__(self, write: Callable[[int], object]) -> None:
        super().__init__(daemon=True)
        self._write = write
        self.acknowledged = 0
        self.over = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over:
                self._write(self.acknowledged)
                self.acknowledged += 1
        except BaseException as error:
            self.failure = error

    def wait(self, count: int) -> None:
        wait_until(lambda: self.failure is not None or self.acknowledged >= count, 60)
        assert self.failure is None, self.failure

    def stop(self) -> None:
        self.over = True
        self.join(60)
        assert self.failure is None, self.failure


def restored_set(place: Path, deployment: Deployment, members: int, *options: object) -> Client:
    """A client of the primary of a new set "other", restored and started."""
    ports = free_ports(members)
    places = [("--member", f"127.0.0.1:{port}={deployment.directory / f'm{n}'}") for n, port in enumerate(ports)]
    run("restore", place, "--setName", "other", *(each for pair in places for each in pair), *options)
    started = [Member(f"m{n}", "mongod", ["--replSet", "other"], port) for n, port in enumerate(ports)]
    deployment.start(*started)
    hosts = ",".join(member.address for member in started)
    return MongoClient(f"mongodb://{hosts}/?replicaSet=other")


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=3) as nodes:
        yield nodes


def test_a_set_under_load_comes_back_at_any_time(replica_set: ReplicaSet, tmp_path: Path) -> None:
    client = replica_set.client()
    rows = client["shop"].get_collection("rows", write_concern=WriteConcern("majority"))
    rows.create_index("n")
    times: list[Timestamp] = []

    def write(number: int) -> None:
        with client.start_session() as session:
            rows.insert_one({"_id": number, "n": -number}, session=session)
            assert session.operation_time is not None
            times.append(session.operation_time)

    writer = Writer(write)
    writer.start()
    writer.wait(100)
    place, acknowledged = tmp_path / "backups", []
    for number, options in enumerate([(), (), ("--oplogOnly",)]):
        writer.wait(100 + 50 * number)
        acknowledged.append(writer.acknowledged)
        create(place, replica_set.uri, *options)
    writer.stop()
    contents = [line.split()[2] for line in run("backup", "list", place).splitlines()]
    assert contents == ["full", "incremental", "oplog"]
    assert "is good" in run("backup", "verify", place)
    middle = acknowledged[1] + 7
    wanted = times[middle]
    for count, options in ((middle + 1, ("--at", f"{wanted.time}:{wanted.inc}")), (None, ())):
        deployment = ForkedDeployment(tmp_path / f"restored-{count}")
        with stopped_at_end(deployment), restored_set(place, deployment, 3, *options) as new:
            found = [row["_id"] for row in new["shop"]["rows"].find().sort("_id")]
            assert found == list(range(len(found)))
            assert len(found) == count if count is not None else len(found) >= acknowledged[-1]
            assert new["shop"]["rows"].find_one({"n": -middle})
            new["shop"].get_collection("rows", write_concern=WriteConcern(3)).insert_one({"_id": "later"})
            hashes = {
                str(MongoClient(host, port, directConnection=True)["shop"].command("dbHash")["md5"])
                for host, port in new.nodes
            }
            assert len(hashes) == 1


def test_what_was_recorded_is_what_comes_back(replica_set: ReplicaSet, tmp_path: Path) -> None:
    client = replica_set.client()
    client["shop"]["kept"].insert_many({"_id": n} for n in range(300))
    client["shop"].create_collection("last", capped=True, size=4096)
    writer = Writer(lambda n: client["shop"]["kept"].update_one({"_id": n % 300}, {"$set": {"n": n}}))
    writer.start()
    writer.wait(50)
    create(tmp_path, replica_set.uri, "--compare")
    writer.stop()
    said = run("backup", "verify", tmp_path)
    assert "is good" in said
    assert " 0 of them compared" not in said


def test_every_kind_of_collection_comes_back(replica_set: ReplicaSet, tmp_path: Path) -> None:
    """From the files of a checkpoint, and what is written later by the oplog alone."""
    client = replica_set.client()
    client.admin.command({"createKeyspace": "keys"})
    client["keys"].command({"cql": "CREATE TABLE t (id int PRIMARY KEY, v text)"})
    client["kinds"].create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    client["kinds"].create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    client["kinds"].create_collection("view", viewOn="clustered", pipeline=[])
    place = tmp_path / "backups"
    for number, options in enumerate((("--compare",), ("--oplogOnly",))):
        client["keys"].command({"cql": f"INSERT INTO t (id, v) VALUES ({number}, 'x')"})
        client["kinds"]["series"].insert_one({"t": datetime(2026, 1, 1, number, tzinfo=UTC), "m": 1})
        with client.start_session() as session, session.start_transaction():
            client["kinds"]["clustered"].insert_one({"_id": number}, session=session)
            client["kinds"]["other"].insert_one({"_id": number}, session=session)
        create(place, replica_set.uri, *options)
    assert "is good" in run("backup", "verify", place)
    deployment = ForkedDeployment(tmp_path / "restored")
    with stopped_at_end(deployment), restored_set(place, deployment, 1) as new:
        assert new["keys"].command({"cql": "SELECT COUNT(*) FROM t"})["rows"] == [[2]]
        assert [new["kinds"][name].count_documents({}) for name in ("series", "clustered", "view", "other")] == 4 * [2]


def test_a_node_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "backups"
    with Standalone() as node:
        node.client()["shop"]["rows"].insert_many({"_id": n, "filler": os.urandom(2000)} for n in range(2000))
        first = create(place, node.uri)
        node.client()["shop"]["rows"].insert_one({"_id": -1})
        create(place, node.uri)
        assert "of a set or a cluster" in run("backup", "create", place, "--uri", node.uri, "--oplogOnly", fails=1)
        refused = run("backup", "create", place, "--uri", node.uri, "--compare", fails=1)
        assert "does not tell its past" in refused
    assert "is good" in run("backup", "verify", place)
    deployment = ForkedDeployment(tmp_path / "restored")
    for name, count in ((first, 2000), ("", 2001)):
        directory = deployment.directory / f"node{count}"
        run("restore", place, "--dbpath", directory, *(("--backup", name) if name else ()))
        assert "is not empty" in run("restore", place, "--dbpath", directory, fails=1)
        with stopped_at_end(deployment):
            deployment.start(Member(f"node{count}", "mongod", []))
            with MongoClient(deployment.members[f"node{count}"].address) as client:
                assert client["shop"]["rows"].count_documents({}) == count
            refused = run("backup", "create", place, "--host", deployment.members[f"node{count}"].address, fails=1)
            assert "another deployment" in refused


def test_a_cluster_comes_back_as_of_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "backups"
    with Cluster(shards=2, members=1) as cluster:
        client = cluster.client()
        cluster.shard_collection("shop.rows", {"_id": 1})
        cluster.split("shop.rows", {"_id": 0})
        cluster.move_chunk("shop.rows", {"_id": 0}, next(iter(others_of(client, cluster))))
        bank = client["shop"]["rows"]
        bank.insert_many([{"_id": -5, "sum": 100}, {"_id": 5, "sum": 0}])

        def transfer(number: int) -> None:
            with client.start_session() as session:
                session.with_transaction(lambda each: move_money(bank, each, number))

        def follow(number: int) -> None:
            bank.insert_one({"_id": -100 - number})
            bank.insert_one({"_id": 100 + number})

        def move(_number: int) -> None:
            cluster.move_chunk("shop.rows", {"_id": 5}, "shard0" if owner(client, 5) == "shard1" else "shard1")

        writers = [Writer(transfer), Writer(follow), Writer(move)]
        for each in writers:
            each.start()
        for each in writers:
            each.wait(3)
        acknowledged = writers[1].acknowledged
        create(place, cluster.uri)
        for each in writers:
            each.wait(each.acknowledged + 2)
        writers[2].stop()
        # The rows of which each was written before another one are on a shard of their own in the second backup.
        before = owner(client, -5)
        if owner(client, 5) == before:
            move(0)
        later = writers[1].acknowledged
        create(place, cluster.uri)
        for each in writers:
            each.stop()
    first, second = run("backup", "list", place).splitlines()
    assert (first.split()[2], second.split()[2]) == ("full", "incremental")
    assert "is good" in run("backup", "verify", place)
    for name, least in ((first.split()[0], acknowledged), (second.split()[0], later)):
        check_cluster(place, ForkedDeployment(tmp_path / f"from-{name}"), name, least)
    # What is looked at shows it where the parts are of two times.
    restored = restoration._restore_set

    def of_two_times(repository: Any, chain: Chain, part: str, *arguments: Any) -> None:
        other = chain_to(repository.inventory().manifests, first.split()[0], None)
        restored(repository, other if part == before else chain, part, *arguments)

    monkeypatch.setattr(restoration, "_restore_set", of_two_times)
    with pytest.raises((AssertionError, OperationFailure)):
        check_cluster(place, ForkedDeployment(tmp_path / "of-two-times"), second.split()[0], 0)


def others_of(client: Client, cluster: Cluster) -> set[str]:
    """The shards that have no chunk of the collection."""
    collection = client["config"]["collections"].find_one({"_id": "shop.rows"})
    assert collection is not None
    return set(cluster.shards) - {row["shard"] for row in client["config"]["chunks"].find({"uuid": collection["uuid"]})}


def move_money(bank: Any, session: Any, number: int) -> None:
    amount = 1 if number % 2 else -1
    bank.update_one({"_id": -5}, {"$inc": {"sum": amount}}, session=session)
    bank.update_one({"_id": 5}, {"$inc": {"sum": -amount}}, session=session)


def check_cluster(place: Path, deployment: Deployment, name: str, least: int) -> None:
    ports = dict(zip(("config", "shard0", "shard1"), free_ports(3), strict=True))
    options: list[object] = ["--backup", name]
    for part, port in ports.items():
        options += ["--member", f"{part}/127.0.0.1:{port}={deployment.directory / part}"]
        options += ["--setName", f"{part}=new_{part}"]
    run("restore", place, *options)
    with stopped_at_end(deployment):
        deployment.start(
            Member("config", "configsvr", ["--replSet", "new_config"], ports["config"]),
            *(
                Member(shard, "mongod", ["--shardsvr", "--replSet", f"new_{shard}"], ports[shard])
                for shard in ("shard0", "shard1")
            ),
        )
        deployment.start(Member("router", "mongos", ["--configdb", f"new_config/127.0.0.1:{ports['config']}"]))
        with MongoClient(deployment.members["router"].address) as client:
            bank = client["shop"]["rows"]
            assert sum(row["sum"] for row in bank.find({"sum": {"$exists": True}})) == 100
            low = sorted(-row["_id"] - 100 for row in bank.find({"_id": {"$lte": -100}}))
            high = sorted(row["_id"] - 100 for row in bank.find({"_id": {"$gte": 100}}))
            assert low == list(range(len(low)))
            assert high == list(range(len(high)))
            assert len(low) - 1 <= len(high) <= len(low)
            assert len(high) >= least
            hosts = {row["_id"]: row["host"] for row in client["config"]["shards"].find()}
            assert hosts == {each: f"new_{each}/127.0.0.1:{ports[each]}" for each in ("shard0", "shard1")}
            bank.insert_many([{"_id": -1}, {"_id": 1}])
            client.admin.command("moveChunk", "shop.rows", find={"_id": 1}, to=owner(client, -1))
            assert bank.count_documents({"_id": {"$in": [-1, 1]}}) == 2


def owner(client: Client, identity: int) -> str:
    plan = client["shop"].command("explain", {"find": "rows", "filter": {"_id": identity}}, verbosity="queryPlanner")
    name: str = plan["queryPlanner"]["winningPlan"]["shards"][0]["shardName"]
    return name


class Killed(BaseException):
    """The process goes: nothing of it runs any more."""


def test_a_backup_that_is_cut_off_anywhere_leaves_those_before(
    replica_set: ReplicaSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = create(tmp_path, replica_set.uri)
    monkeypatch.setattr(repository.Repository, "discard", lambda _self, _directory: None)
    left = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return function(*arguments, **options)

        return step

    for module, name in (
        (creation, "write_durably"), (repository, "write_durably"), (repository, "sync_directory"),
        (creation.Transfer, "_take"), (Path, "rename"), (Path, "mkdir"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    steps = 0
    while True:
        left = steps
        steps += 1
        with suppress(Killed):
            create(tmp_path, replica_set.uri)
            break
        whole = run("backup", "list", tmp_path).splitlines()
        assert whole[0].startswith(first)
    assert steps > 10
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".partial")]
    for name in {line.split()[0] for line in run("backup", "list", tmp_path).splitlines()}:
        assert "is good" in run("backup", "verify", tmp_path, name)


def test_a_process_that_is_killed(replica_set: ReplicaSet, tmp_path: Path) -> None:
    create(tmp_path, replica_set.uri)
    command = [sys.executable, "-c", "from docstore.backup.program import main; main()", "backup", "create"]
    with subprocess.Popen([*command, str(tmp_path), "--uri", replica_set.uri, "--full", "--quiet"]) as process:
        wait_until(lambda: process.poll() is not None or any(tmp_path.glob(".partial-*/*/*")), 30, poll=0.001)
        os.kill(process.pid, signal.SIGKILL)
    assert "is good" in run("backup", "verify", tmp_path)
    create(tmp_path, replica_set.uri)
    assert not any(tmp_path.glob(".partial-*"))


def test_damage_is_said(replica_set: ReplicaSet, tmp_path: Path) -> None:
    replica_set.client()["shop"]["damaged"].insert_many({"_id": n, "x": os.urandom(100)} for n in range(1000))
    name = create(tmp_path / "good", replica_set.uri)
    tables = sorted((tmp_path / "good" / name / "set").glob("*.sst"), key=lambda file: file.stat().st_size)
    for case, harm in (
        ("is damaged: its checksum", lambda file: flip(file)),
        ("bytes and had", lambda file: os.truncate(file, 100)),
        ("cannot be read", lambda file: file.unlink()),
    ):
        broken = tmp_path / "broken"
        shutil.copytree(tmp_path / "good", broken)
        harm(broken / name / "set" / tables[-1].name)
        for arguments in (("backup", "verify", broken), ("restore", broken, "--member", f"h:1={tmp_path / 'none'}")):
            said = run(*arguments, fails=1)
            assert case in said
            assert tables[-1].name in said
        assert not (tmp_path / "none").exists()
        shutil.rmtree(broken)


def test_a_damaged_manifest_stops_nothing_else(replica_set: ReplicaSet, tmp_path: Path) -> None:
    """The work is done, and the exit code says that the repository is damaged."""
    place = tmp_path / "backups"
    first, second, third = (create(place, replica_set.uri) for _ in range(3))
    flip(place / second / "manifest.json")
    why = f"{second}/manifest.json is damaged"
    assert why in run("backup", "list", place, fails=3)
    assert why in run("backup", "verify", place, fails=3)
    assert why in run("restore", place, "--member", f"h:1={tmp_path / 'restored'}", fails=3)
    assert (tmp_path / "restored" / "CURRENT").exists()
    refused = run("restore", place, "--backup", second, "--member", f"h:1={tmp_path / 'none'}", fails=1)
    assert why in refused
    made = run("backup", "create", place, "--uri", replica_set.uri, fails=3)
    assert why in made
    fourth = made.splitlines()[0].split()[-1]
    assert why in run("backup", "prune", place, "--keep", 1, fails=3)
    names = [line.split()[0] for line in run("backup", "list", place, fails=3).splitlines()[:-1]]
    assert (names[0], len(names)) == (second, 2), (first, third, fourth)
    flip(place / names[1] / "manifest.json")
    refused = run("backup", "verify", place, fails=1)
    assert "the newest backup is damaged" in refused


def test_a_rotten_file_is_not_shared(replica_set: ReplicaSet, tmp_path: Path) -> None:
    replica_set.client()["shop"]["rotten"].insert_many({"_id": n, "x": os.urandom(100)} for n in range(1000))
    first = create(tmp_path, replica_set.uri)
    for table in (tmp_path / first / "set").glob("*.sst"):
        flip(table)
    said = run("backup", "create", tmp_path, "--uri", replica_set.uri, fails=3)
    assert ".sst is damaged" in said
    assert ", 0 of them shared" in said
    second = run("backup", "list", tmp_path).splitlines()[-1].split()[0]
    assert "is good" in run("backup", "verify", tmp_path, second)
    assert ".sst is damaged" in run("backup", "verify", tmp_path, first, fails=1)


def test_a_log_that_is_cut_before_it_is_read(
    replica_set: ReplicaSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still began where the backup before ended when that was asked."""
    rows = replica_set.client()["shop"]["cut"]
    create(tmp_path, replica_set.uri)
    rows.insert_many([{"_id": n} for n in range(10)])
    begins, cut = moment.SpanReading.begins, []

    def then_cut(reading: moment.SpanReading) -> bool:
        answer = begins.fget(reading)  # type: ignore[attr-defined]
        cut.append(reading.start)
        return bool(answer)

    class Cut:
        """A log that has lost its oldest entries since."""

        def __init__(self, collection: Any) -> None:
            self._collection = collection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._collection, name)

        def with_options(self, **options: Any) -> Any:
            return Cut(self._collection.with_options(**options))

        def find_raw_batches(self, query: Any, **options: Any) -> Any:
            return self._collection.find_raw_batches({"ts": query["ts"] | {"$gt": query["ts"]["$gte"]}}, **options)

    log_of = moment.SpanReading._log
    monkeypatch.setattr(moment.SpanReading, "begins", property(then_cut))
    monkeypatch.setattr(moment.SpanReading, "_log", lambda reading: Cut(log_of(reading)))
    said = run("backup", "create", tmp_path, "--uri", replica_set.uri, "--oplogOnly", fails=1)
    assert cut
    assert "it was cut before it was read" in said
    assert len(run("backup", "list", tmp_path).splitlines()) == 1


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_old_backups_go(replica_set: ReplicaSet, tmp_path: Path) -> None:
    names = [create(tmp_path, replica_set.uri, *(("--oplogOnly",) if n % 2 else ())) for n in range(6)]
    assert names[1] in run("backup", "prune", tmp_path, "--keep", 2, "--dryRun")
    run("backup", "prune", tmp_path, "--keepDays", 1)
    assert len(run("backup", "list", tmp_path).splitlines()) == 6
    run("backup", "prune", tmp_path, "--keep", 2)
    assert [line.split()[0] for line in run("backup", "list", tmp_path).splitlines()] == names[2:]
    assert "is good" in run("backup", "verify", tmp_path)
    assert "is later than" in run("restore", tmp_path, "--at", "4000000000", "--member", "h:1=x", fails=1)
    assert "no oplog" in run("restore", tmp_path, "--at", "2020-01-01T00:00:00Z", "--member", "h:1=x", fails=1)


def test_another_deployment_is_refused(replica_set: ReplicaSet, tmp_path: Path) -> None:
    create(tmp_path, replica_set.uri)
    with ReplicaSet(members=1) as other:
        assert "another deployment" in run("backup", "create", tmp_path, "--uri", other.uri, fails=1)
    with Standalone() as node:
        assert "this is a node" in run("backup", "create", tmp_path, "--uri", node.uri, fails=1)


def test_the_log_of_a_restored_set_continues_no_backup_of_the_old_one(replica_set: ReplicaSet, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    create(place, replica_set.uri)
    deployment = ForkedDeployment(tmp_path / "restored")
    with stopped_at_end(deployment), restored_set(place, deployment, 1) as new:
        new["shop"]["rows"].insert_one({"_id": "of the new set"})
        uri = f"mongodb://{deployment.members['m0'].address}/?replicaSet=other"
        for options in ((), ("--oplogOnly",)):
            assert "another deployment" in run("backup", "create", place, "--uri", uri, *options, fails=1)
    assert len(run("backup", "list", place).splitlines()) == 1


def test_a_restore_that_fails_can_be_run_again(replica_set: ReplicaSet, tmp_path: Path) -> None:
    """Whichever of the members' directories cannot be made, none is left."""
    place = tmp_path / "backups"
    create(place, replica_set.uri)
    for number in range(3):
        (tmp_path / "file").touch()
        paths = [tmp_path / name for name in "abc"]
        paths[number] = tmp_path / "file" / "in"
        members = [f"--member=h:{port}={path}" for port, path in enumerate(paths)]
        run("restore", place, *members, fails=1)
        assert not [each for each in tmp_path.iterdir() if each.name not in ("file", "backups")]
        (tmp_path / "file").unlink()
    run("restore", place, *members)
    assert all((path / "CURRENT").exists() for path in paths)


def test_users(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("aGVsbG8gd29ybGQ=")
    key.chmod(0o600)
    deployment = ForkedDeployment(tmp_path / "nodes")
    with stopped_at_end(deployment):
        node = Member("node", "mongod", ["--replSet", "rs", "--keyFile", str(key)])
        deployment.start(node)
        with MongoClient(node.address, directConnection=True) as first:
            first.admin.command("replSetInitiate", {"_id": "rs", "members": [{"_id": 0, "host": node.address}]})
            wait_until(lambda: first.admin.command("hello")["isWritablePrimary"], 30)
            first.admin.command("createUser", "root", pwd="r", roles=["root"])
        with MongoClient(node.address, username="root", password="r") as client:
            client["shop"]["rows"].insert_one({"_id": 1})
            client.admin.command("createUser", "keeper", pwd="k", roles=["backup"])
            client.admin.command("createUser", "reader", pwd="k", roles=["readAnyDatabase", "clusterManager"])
        place, server = tmp_path / "backups", ("--host", node.address)
        assert "not authorized" in run("backup", "create", place, *server, "-u", "reader", "-p", "k", fails=1)
        assert "requires authentication" in run("backup", "create", place, *server, fails=1)
        run("backup", "create", place, *server, "-u", "keeper", "-p", "k", "--compare")
        run("backup", "create", place, *server, "--keyFile", key)
        run("backup", "create", place, "--uri", f"mongodb://keeper:k@{node.address}/?replicaSet=rs")
        assert not list(deployment.directory.rglob("backup.open/*"))
    assert "is good" in run("backup", "verify", place)


def test_a_member_that_goes_meanwhile(replica_set: ReplicaSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt takes another member, and the oplog goes on where that of the first one ended."""
    client, copied, gone = replica_set.client(), creation.Transfer.run, list[str]()
    create(tmp_path, replica_set.uri)
    rows = client["shop"].get_collection("kept_in_each", write_concern=WriteConcern("majority"))
    rows.insert_one({"_id": 1})

    def kill_first(transfer: creation.Transfer, pool: Any) -> Any:
        if not gone:
            host, port = transfer._client.address or ("", 0)
            gone.extend(each.name for each in replica_set.members.values() if each.address == f"{host}:{port}")
            replica_set.kill(gone[0])
        return copied(transfer, pool)

    monkeypatch.setattr(access, "MEMBER_MS", 500)
    monkeypatch.setattr(creation.Transfer, "run", kill_first)
    said = run("backup", "create", tmp_path, "--uri", replica_set.uri, "--compare")
    assert "once more" in said
    replica_set.restart(gone[0])
    replica_set.settle()
    first, second = (line.split() for line in run("backup", "list", tmp_path).splitlines())
    assert (first[2], second[2]) == ("full", "full")
    assert "is good" in run("backup", "verify", tmp_path)
    assert "is good" in run("backup", "verify", tmp_path, "--at", second[3])
    directory = tmp_path / "restored"
    run("restore", tmp_path, "--at", second[3], "--member", f"h:1={directory}", "--quiet")
    with opened(directory) as store:
        collection = store.collection("shop.kept_in_each")
        assert collection is not None
        assert collection.count == 1
