"""A replica set of real processes, with short timings, and how it is looked at and disturbed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError

from scripts.deployment import Deployment, Member, replica_set, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
Client = pymongo.MongoClient[dict[str, Any]]


class Processes:
    """The members of set "rs", by number; each with a client of its own that talks to nobody else."""

    def __init__(
        self, deployment: Deployment, count: int, arguments: list[str] | None = None, *, shards: bool = True
    ) -> None:
        """`shards`: whether the set could become one."""
        self.deployment = deployment
        self.members = replica_set("rs", count, arguments or [])
        if not shards:
            for member in self.members:
                member.arguments.remove("--shardsvr")
        deployment.start(*self.members)
        self.clients = [client_of(member) for member in self.members]

    def __getitem__(self, number: int) -> Client:
        return self.clients[number]

    def config(self, count: int | None = None, **fields: Any) -> dict[str, Any]:
        rows = [{"_id": n, "host": member.address} for n, member in enumerate(self.members[:count])]
        return {"_id": "rs", "members": rows, "settings": SETTINGS, **fields}

    def initiate(self, count: int | None = None) -> None:
        """Initiate on member 0 and wait until it is primary and all others are secondaries."""
        count = count or len(self.members)
        self[0].admin.command("replSetInitiate", self.config(count))
        wait_until(lambda: self.states()[:count] == ["PRIMARY"] + ["SECONDARY"] * (count - 1), 20)

    def states(self) -> list[str]:
        """What each member says of itself; "" for one that does not answer."""
        return [self.state(number) for number in range(len(self.members))]

    def state(self, number: int) -> str:
        if not self.members[number].running:
            # A client would look for it for seconds.
            return ""
        with contextlib.suppress(PyMongoError):
            hello = self[number].admin.command("hello")
            if hello["isWritablePrimary"]:
                return "PRIMARY"
            if hello["secondary"]:
                return "SECONDARY"
            rows = self[number].admin.command("replSetGetStatus")["members"]
            return next(str(row["stateStr"]) for row in rows if row.get("self"))
        return ""

    def primary(self, among: list[int] | None = None) -> int | None:
        """The number of the member that takes writes."""
        numbers = range(len(self.members)) if among is None else among
        return next((number for number in numbers if self.state(number) == "PRIMARY"), None)

    def wait_primary(self, among: list[int] | None = None, timeout: float = 10) -> int:
        wait_until(lambda: self.primary(among) is not None, timeout)
        number = self.primary(among)
        assert number is not None
        return number

    def add_member(self, name: str) -> int:
        """Start another process; its number. It is not in the configuration yet."""
        member = Member(name, "mongod", ["--shardsvr", "--replSet", "rs"])
        self.deployment.start(member)
        self.members.append(member)
        self.clients.append(client_of(member))
        return len(self.members) - 1

    def settle(self) -> None:
        """For the next test: everyone runs, `test` is gone, and the primary is number 0 from now on."""
        self.resume(*range(len(self.members)))
        self.deployment.start(*(member for member in self.members if not member.running))
        wait_until(lambda: sorted(self.states()) == ["PRIMARY"] + ["SECONDARY"] * (len(self.members) - 1), 20)
        primary = self.wait_primary()
        for each in (self.members, self.clients):
            each.insert(0, each.pop(primary))  # type: ignore[attr-defined]
        for secondary in self.clients[1:]:
            # One that has stepped down may run again.
            secondary.admin.command("replSetFreeze", 0)
        self[0].drop_database("test")
        wait_until(self.converged, 20)
        # A member that was added anew counts from a later configuration on.
        wait_until(lambda: self[0].admin.command("replSetGetStatus")["votingMembersCount"] == len(self.members), 20)

    def kill(self, number: int) -> None:
        self.deployment.kill(self.members[number].name)

    def restart(self, number: int) -> None:
        self.deployment.restart(self.members[number].name)

    def pause(self, *numbers: int) -> None:
        for number in numbers:
            os.kill(self.members[number].pid, signal.SIGSTOP)

    def resume(self, *numbers: int) -> None:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.members[number].pid, signal.SIGCONT)

    def hashes(self, numbers: list[int], database: str = "test") -> set[str]:
        return {self[number][database].command("dbHash")["md5"] for number in numbers}

    def converged(self, numbers: list[int] | None = None) -> bool:
        """Whether these members (all) have the same last entry and the same data."""
        numbers = list(range(len(self.members))) if numbers is None else numbers
        with contextlib.suppress(PyMongoError):
            last = {str(self[number].admin.command("hello")["lastWrite"]["opTime"]) for number in numbers}
            return len(last) == 1 and len(self.hashes(numbers)) == 1
        return False

    def documents(self, number: int, collection: str) -> list[RawBSONDocument]:
        """The documents of test.<collection> in natural order, byte for byte."""
        options = self[number].codec_options.with_options(document_class=RawBSONDocument)
        return list(
            self[number]
            .get_database("test", codec_options=options, read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
            .get_collection(collection)
            .find()
        )

    def uri(self) -> str:
        return "mongodb://" + ",".join(member.address for member in self.members) + "/?replicaSet=rs"


def client_of(member: Member) -> Client:
    return pymongo.MongoClient(
        member.address, directConnection=True, serverSelectionTimeoutMS=2000, socketTimeoutMS=20_000, retryWrites=False
    )


@contextlib.contextmanager
def running_set(directory: Path, count: int, *, initiated: bool = True, shards: bool = True) -> Iterator[Processes]:
    """A set of that many members; nothing is left of it afterwards."""
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        processes = Processes(deployment, count, shards=shards)
        try:
            if initiated:
                processes.initiate()
            yield processes
        finally:
            processes.resume(*range(len(processes.members)))
            for client in processes.clients:
                client.close()
