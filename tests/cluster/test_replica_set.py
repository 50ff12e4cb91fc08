"""Replica sets of real processes: elections, acknowledged writes, rollback, initial sync, under kill -9 and pauses."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import (
    ConnectionFailure,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WTimeoutError,
)
from pymongo.read_concern import ReadConcern

from tests.cluster.replica_set_processes import Processes, client_of, running_set
from tests.harness.rollback_files import kept_documents
from tests.harness.waiting import wait_until

REFUSALS = (OperationFailure, NotPrimaryError)
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running_set(tmp_path_factory.mktemp("set"), 3) as processes:
        yield processes


@pytest.fixture
def three(running: Processes) -> Processes:
    """A primary, number 0, and two secondaries. What a test does to them is undone, but for their configuration."""
    running.settle()
    return running


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Processes]:
    """A set of three of the test's own, which it may leave with more."""
    with running_set(tmp_path, 3) as processes:
        yield processes


class Writer(threading.Thread):
    """Inserts ever new numbers at w: "majority" through a driver of its own, until told to stop."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(uri, serverSelectionTimeoutMS=20_000)
        self._collection = self._client.test.get_collection("stream", write_concern=WriteConcern("majority"))
        self._stopping = threading.Event()
        self.acknowledged: list[int] = []

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            with contextlib.suppress(PyMongoError):
                self._collection.insert_one({"_id": number})
                self.acknowledged.append(number)

    def stop(self) -> list[int]:
        self._stopping.set()
        self.join(30)
        assert not self.is_alive()
        self._client.close()
        return self.acknowledged


def code_of(error: pytest.ExceptionInfo[Any]) -> int:
    return int(error.value.details["code"])


def test_before_initiation_the_status_says_so_in_the_words_of_2012_and_of_today(tmp_path: Path) -> None:
    with running_set(tmp_path, 1, initiated=False) as processes:
        with pytest.raises(REFUSALS) as refused:
            processes[0].admin.command("replSetGetStatus")
        details = refused.value.details or {}
        assert (details["code"], details["startupStatus"]) == (94, 3)
        assert "EMPTYCONFIG" in details["errmsg"]
        assert "rs.initiate" in details["info"]
        hello = processes[0].admin.command("hello")
        assert (hello["isreplicaset"], hello["isWritablePrimary"]) == (True, False)
        with pytest.raises(REFUSALS) as refused:
            processes[0].test.command("insert", "c", documents=[{}])
        assert code_of(refused) == 10107


def test_initiating_without_an_argument_makes_a_primary_of_this_member_at_once(tmp_path: Path) -> None:
    with running_set(tmp_path, 1, initiated=False) as processes:
        reply = processes[0].admin.command("replSetInitiate", {})
        assert reply["me"] == processes.members[0].address
        assert "info2" in reply
        processes.wait_primary(timeout=2)
        config = processes[0].admin.command("replSetGetConfig")["config"]
        assert (config["version"], [row["host"] for row in config["members"]]) == (1, [processes.members[0].address])
        with pytest.raises(REFUSALS) as refused:
            processes[0].admin.command("replSetInitiate", {})
        assert code_of(refused) == 23


def test_a_member_of_another_set_cannot_be_proposed_for_a_new_one(tmp_path: Path) -> None:
    with running_set(tmp_path, 2, initiated=False) as processes:
        processes[1].admin.command("replSetInitiate", {})
        processes.wait_primary(among=[1])
        with pytest.raises(REFUSALS) as refused:
            processes[0].admin.command("replSetInitiate", processes.config())
        assert code_of(refused) == 103
        assert processes.primary() == 1


def test_a_write_acknowledged_by_all_is_readable_on_all(three: Processes) -> None:
    collection = three[0].test.get_collection("c", write_concern=WriteConcern(3, wtimeout=5000))
    for number in range(50):
        collection.insert_one({"_id": number})
        for other in (1, 2):
            reader = three[other].get_database("test", read_preference=ReadPreference.SECONDARY)
            assert reader.c.find_one({"_id": number}) == {"_id": number}
    assert three.converged()


def test_secondaries_refuse_writes_and_reads_that_want_the_primary(three: Processes) -> None:
    with pytest.raises(REFUSALS) as refused:
        three[1].test.command("insert", "c", documents=[{}])
    assert code_of(refused) == 10107
    with pytest.raises(REFUSALS) as refused:
        three[1].test.command({"find": "c", "$readPreference": {"mode": "primary"}})
    assert code_of(refused) == 13435


def test_killing_the_primary_loses_no_acknowledged_write_and_elects_within_two_seconds(three: Processes) -> None:
    writer = Writer(three.uri())
    writer.start()
    wait_until(lambda: len(writer.acknowledged) > 100, 20)
    killed = time.monotonic()
    three.kill(0)
    three.wait_primary(among=[1, 2])
    # Two seconds is the aim; the machine of a test may be busy with others.
    assert time.monotonic() - killed < 4
    after = len(writer.acknowledged)
    wait_until(lambda: len(writer.acknowledged) > after + 100, 20)
    three.restart(0)
    wait_until(lambda: three.state(0) == "SECONDARY", 20)
    acknowledged = writer.stop()
    wait_until(three.converged, 20)
    stored = {document["_id"] for document in three.documents(0, "stream")}
    assert not set(acknowledged) - stored


def test_a_dead_primary_is_replaced_long_before_the_election_timeout_and_a_stopped_one_after_it(tmp_path: Path) -> None:
    """With the default timings: heartbeats every 2 s, an election timeout of 10 s."""
    with running_set(tmp_path, 3, initiated=False) as processes:
        processes[0].admin.command("replSetInitiate", processes.config(settings={}))
        wait_until(lambda: processes.states() == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
        wait_until(processes.converged, 20)
        began = time.monotonic()
        processes.kill(0)
        second = processes.wait_primary(among=[1, 2])
        # It takes well under two seconds where nothing else runs.
        assert time.monotonic() - began < 6
        processes.restart(0)
        wait_until(lambda: sorted(processes.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 30)
        wait_until(processes.converged, 20)
        others = [number for number in range(3) if number != second]
        began = time.monotonic()
        processes.pause(second)
        processes.wait_primary(among=others, timeout=40)
        assert time.monotonic() - began > 6, "silence proves nothing before the timeout"


def test_a_lost_primarys_own_writes_are_rolled_back_to_the_exact_state(three: Processes) -> None:
    before = three[0].test.get_collection("c", write_concern=WriteConcern(3, wtimeout=5000))
    before.insert_many([{"_id": n, "v": "old", "n": n} for n in range(100)])
    before.create_index([("n", 1)], unique=True)
    directory = three.deployment.directory / three.members[0].name
    rollback_id = three[0].admin.command("replSetGetRBID")["rbid"]
    three.kill(1)
    three.kill(2)
    alone = three[0].test.get_collection("c", write_concern=WriteConcern(1))
    alone.insert_many([{"_id": n, "v": "lost", "n": n} for n in range(100, 110)])
    alone.update_many({"_id": {"$lt": 10}}, {"$set": {"v": "lost"}})
    alone.delete_many({"_id": {"$gte": 90, "$lt": 95}})
    three[0].test.get_collection("lost", write_concern=WriteConcern(1)).insert_one({"_id": 1})
    three.kill(0)
    three.restart(1)
    three.restart(2)
    winner = three.wait_primary(among=[1, 2])
    kept = three[winner].test.get_collection("c", write_concern=WriteConcern(2, wtimeout=5000))
    kept.insert_many([{"_id": n, "v": "kept", "n": n} for n in range(105, 120)])
    three.restart(0)
    wait_until(lambda: three.state(0) == "SECONDARY" and three.converged(), 20)
    assert three.documents(0, "c") == three.documents(winner, "c")
    assert [row["v"] for row in three.documents(0, "c")] == ["old"] * 100 + ["kept"] * 15
    assert "lost" not in three[0].test.list_collection_names()
    assert three[0].admin.command("replSetGetRBID")["rbid"] == rollback_id + 1
    assert {row["_id"] for row in kept_documents(directory, "test.c")} == {*range(10), *range(100, 110)}
    assert three[0].test.command("validate", "c")["valid"]


def test_a_primary_paused_past_the_election_timeout_finds_itself_deposed(three: Processes) -> None:
    three.pause(0)
    three.wait_primary(among=[1, 2])
    three.resume(0)
    wait_until(lambda: three.state(0) == "SECONDARY", 10)
    wait_until(lambda: sorted(three.states()) == ["PRIMARY", "SECONDARY", "SECONDARY"], 10)


def test_a_primary_that_hears_from_no_majority_steps_down(three: Processes) -> None:
    three.pause(1, 2)
    wait_until(lambda: three.state(0) == "SECONDARY", 10)


def test_a_new_member_copies_the_data_while_it_is_written_to(growing: Processes) -> None:
    collection = growing[0].test.stock
    collection.create_index([("code", 1)], unique=True)
    collection.create_index([("tags", 1), ("n", -1)])
    collection.insert_many([{"_id": n, "code": f"c{n}", "tags": ["a", n % 7], "n": n} for n in range(5000)])
    writer = Writer(growing.uri())
    writer.start()
    added = growing.add_member("late")
    config = growing[0].admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"].append({"_id": 3, "host": growing.members[added].address})
    growing[0].admin.command("replSetReconfig", config)
    stop = time.monotonic() + 1.0
    number = 0
    while growing.state(added) != "SECONDARY" or time.monotonic() < stop:
        number += 1
        collection.update_one({"_id": number % 5000}, {"$inc": {"n": 1}, "$set": {"code": f"d{number}"}})
        collection.delete_one({"_id": (number * 7) % 5000})
        assert number < 100_000
    writer.stop()
    wait_until(growing.converged, 20)
    assert growing[added].test.command("validate", "stock")["valid"]
    names = {index["name"] for index in growing[added].test.stock.list_indexes()}
    assert names == {"_id_", "code_1", "tags_1_n_-1"}
    wait_until(lambda: growing[0].admin.command("replSetGetStatus")["votingMembersCount"] == 4, 10)


def test_a_member_killed_in_its_initial_sync_starts_over(growing: Processes) -> None:
    growing[0].test.big.insert_many([{"_id": n, "pad": "x" * 500} for n in range(20_000)])
    added = growing.add_member("late")
    config = growing[0].admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    config["members"].append({"_id": 3, "host": growing.members[added].address})
    growing[0].admin.command("replSetReconfig", config)
    wait_until(lambda: growing.state(added) == "STARTUP2" or growing.state(added) == "SECONDARY", 10, poll=0.001)
    growing.kill(added)
    growing.restart(added)
    wait_until(lambda: growing.state(added) == "SECONDARY", 30)
    wait_until(growing.converged, 20)


def test_stepping_down_hands_over_and_a_driver_goes_on_writing(three: Processes) -> None:
    writer = Writer(three.uri())
    writer.start()
    wait_until(lambda: len(writer.acknowledged) > 20, 20)
    started = time.monotonic()
    three[0].admin.command("replSetStepDown", 20)
    three.wait_primary(among=[1, 2])
    assert time.monotonic() - started < 3
    after = len(writer.acknowledged)
    wait_until(lambda: len(writer.acknowledged) > after + 20, 20)
    acknowledged = writer.stop()
    wait_until(three.converged, 20)
    assert not set(acknowledged) - {document["_id"] for document in three.documents(1, "stream")}


def test_a_lone_primary_does_not_step_down_unless_forced(tmp_path: Path) -> None:
    with running_set(tmp_path, 1) as processes:
        with pytest.raises(REFUSALS) as refused:
            processes[0].admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=1)
        assert code_of(refused) == 262
        assert processes.primary() == 0
        processes[0].admin.command("replSetStepDown", 1, force=True)
        assert processes.state(0) == "SECONDARY"
        processes.wait_primary(timeout=5)


def test_write_concerns_that_are_not_met_leave_the_write_and_say_why(three: Processes) -> None:
    three.pause(1, 2)
    collection = three[0].test.c
    with pytest.raises(WTimeoutError) as late:
        collection.with_options(write_concern=WriteConcern(2, wtimeout=100)).insert_one({"_id": 1})
    assert late.value.code == 64
    with pytest.raises(WriteConcernError) as impossible:
        collection.with_options(write_concern=WriteConcern(5)).insert_one({"_id": 2})
    assert impossible.value.code == 100
    with pytest.raises(WriteConcernError) as unknown:
        collection.with_options(write_concern=WriteConcern("no such mode")).insert_one({"_id": 3})
    assert unknown.value.code == 79
    assert collection.count_documents({}) == 3
    three.resume(1, 2)


def test_majority_reads_see_only_what_is_committed(three: Processes) -> None:
    collection = three[0].test.get_collection("c", write_concern=WriteConcern("majority", wtimeout=5000))
    collection.insert_one({"_id": "committed"})
    majority = collection.with_options(read_concern=ReadConcern("majority"))
    assert [row["_id"] for row in majority.find()] == ["committed"]
    three.pause(1, 2)
    three[0].test.get_collection("c", write_concern=WriteConcern(1)).insert_one({"_id": "not yet"})
    assert [row["_id"] for row in majority.find()] == ["committed"]
    assert collection.count_documents({}) == 2
    three.resume(1, 2)
    wait_until(lambda: majority.count_documents({}) == 2, 10)


def test_a_secondary_waits_for_the_cluster_time_that_a_read_asks_for(three: Processes) -> None:
    for number in range(20):
        written = three[0].test.command("insert", "c", documents=[{"_id": number}], writeConcern={"w": 1})
        read = {
            "find": "c",
            "filter": {"_id": number},
            "readConcern": {"afterClusterTime": written["operationTime"]},
            "$readPreference": {"mode": "secondary"},
        }
        with contextlib.closing(client_of(three.members[1 + number % 2])) as secondary:
            session = secondary.start_session(causal_consistency=False)
            session.advance_cluster_time(written["$clusterTime"])
            assert secondary.test.command(read, session=session)["cursor"]["firstBatch"] == [{"_id": number}]


def test_members_are_removed_and_added_one_at_a_time(three: Processes) -> None:
    config = three[0].admin.command("replSetGetConfig")["config"]
    (removed,) = (row for row in config["members"] if row["host"] == three.members[2].address)
    config["members"].remove(removed)
    config["version"] += 1
    three[0].admin.command("replSetReconfig", config)
    wait_until(lambda: three.state(2) not in ("PRIMARY", "SECONDARY"), 10)
    assert three[0].admin.command("replSetGetStatus")["votingMembersCount"] == 2
    config["version"] += 1
    config["members"].append(removed)
    three[0].admin.command("replSetReconfig", config)
    wait_until(lambda: three.state(2) == "SECONDARY", 20)
    wait_until(three.converged, 20)
    # Until it has its vote, only one would lose its own.
    wait_until(lambda: three[0].admin.command("replSetGetStatus")["votingMembersCount"] == 3, 20)
    two_at_once = three[0].admin.command("replSetGetConfig")["config"]
    two_at_once["version"] += 1
    two_at_once["members"] = [row for row in two_at_once["members"] if row["host"] == three.members[0].address]
    with pytest.raises(REFUSALS) as refused:
        three[0].admin.command("replSetReconfig", two_at_once)
    assert code_of(refused) == 103


def test_a_driver_hears_of_a_new_primary_by_awaiting_hello(three: Processes) -> None:
    wait_until(lambda: "primary" in three[1].admin.command("hello"), 10)
    hello = three[1].admin.command("hello")
    heard: list[dict[str, Any]] = [hello]
    with contextlib.closing(client_of(three.members[1])) as client:

        def listen() -> None:
            # Other news may come first: a member that has only now been seen.
            while heard[-1].get("primary") == hello["primary"]:
                version = heard[-1]["topologyVersion"]
                awaited = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 15_000}
                heard.append(client.admin.command(awaited))

        waiting = threading.Thread(target=listen)
        waiting.start()
        three[0].admin.command("replSetStepDown", 20)
        waiting.join(10)
    assert heard[-1].get("primary") != hello["primary"]
    counters = [reply["topologyVersion"]["counter"] for reply in heard]
    assert counters == sorted(set(counters))


def test_an_arbiter_votes_but_keeps_no_data(tmp_path: Path) -> None:
    with running_set(tmp_path, 3, initiated=False) as processes:
        config = processes.config()
        config["members"][2]["arbiterOnly"] = True
        processes[0].admin.command("replSetInitiate", config)
        wait_until(lambda: processes.states() == ["PRIMARY", "SECONDARY", "ARBITER"], 20)
        processes[0].test.get_collection("c", write_concern=WriteConcern(2, wtimeout=5000)).insert_one({"_id": 1})
        assert processes[2].admin.command("hello")["arbiterOnly"] is True
        processes.kill(0)
        assert processes.wait_primary(among=[1]) == 1
        assert processes[1].test.c.count_documents({}) == 1


def test_all_members_killed_at_once_come_back_with_everything_acknowledged(three: Processes) -> None:
    collection = three[0].test.get_collection("c", write_concern=WriteConcern("majority"))
    for number in range(100):
        collection.insert_one({"_id": number})
    for number in range(3):
        three.kill(number)
    with contextlib.suppress(ConnectionFailure):
        three.deployment.start(*three.members)
    primary = three.wait_primary()
    assert three[primary].test.c.count_documents({}) == 100
    wait_until(three.converged, 20)
