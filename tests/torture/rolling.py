"""A set that serves goes from nothing to a key file, access control, encryption and another key, member by member.

Clients write all the time with a majority's acknowledgement. Judged by what is left: every acknowledged document is on
every member, strangers and plain connections are turned away in the end, and the longest time between two
acknowledgements, which is the longest that the set had no primary, is less than a minute.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from scripts.deployment import Deployment, Member, replica_set, stopped_at_end
from tests.harness.certificates import Authority
from tests.harness.waiting import wait_until

WRITERS = 4
LONGEST_PAUSE = 60.0
STEP_SECONDS = 60.0
OLD, NEW = "aGVsbG8gd29ybGQ=", "bmV3IGtleSBvZiBhbGw="
CREDENTIALS = {"username": "root", "password": "r"}
Client = pymongo.MongoClient[dict[str, Any]]


@dataclass(frozen=True)
class Step:
    """What all members are started with from then on, and with what clients come once all are."""

    name: str
    arguments: list[str]
    client: dict[str, Any]
    keys: tuple[str, ...] = (OLD,)


@dataclass
class Findings:
    """`steps`: name, seconds, and the longest pause between two acknowledgements in it. `wrong`: what must not be."""

    acknowledged: set[int] = field(default_factory=set)
    steps: list[tuple[str, float, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def steps_of(key_file: Path, authority: Authority) -> list[Step]:
    key = ["--keyFile", str(key_file)]
    files = ["--tlsCertificateKeyFile", str(authority.issue("server")), "--tlsCAFile", str(authority.ca_file)]
    secure: dict[str, Any] = {
        **CREDENTIALS, "tls": True, "tlsCAFile": str(authority.ca_file),
        "tlsCertificateKeyFile": str(authority.issue("client")),
    }  # fmt: skip

    def encrypted(mode: str) -> list[str]:
        return [*key, "--tlsMode", mode, *files]

    return [
        Step("key file, strangers let in", [*key, "--transitionToAuth"], CREDENTIALS),
        Step("access control", key, CREDENTIALS),
        Step("allowTLS", encrypted("allowTLS"), secure),
        Step("preferTLS", encrypted("preferTLS"), secure),
        Step("requireTLS", encrypted("requireTLS"), secure),
        Step("old key and new", encrypted("requireTLS"), secure, (OLD, NEW)),
        Step("new key", encrypted("requireTLS"), secure, (NEW,)),
    ]


class Load:
    """Threads that write, each document once, and remember what was acknowledged, and when."""

    def __init__(self, hosts: list[str]) -> None:
        self.options: dict[str, Any] = {}
        self.acknowledged: set[int] = set()
        self.times: list[float] = []
        self._hosts = hosts
        self._numbers = iter(range(1 << 60))
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(WRITERS)]

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def longest_pause(self, since: float) -> float:
        """Seconds between two acknowledgements one after another, now included."""
        with self._lock:
            times = [since, *(each for each in self.times if each >= since), time.monotonic()]
        return max(after - before for before, after in pairwise(times))

    def _run(self) -> None:
        while not self._over.is_set():
            options = self.options
            with suppress(PyMongoError), connected(self._hosts, options) as client:
                while self.options is options and not self._over.is_set():
                    self._write(client)

    def _write(self, client: Client) -> None:
        with self._lock:
            number = next(self._numbers)
        client.test.get_collection("c", write_concern=pymongo.WriteConcern(w="majority")).insert_one({"_id": number})
        with self._lock:
            self.acknowledged.add(number)
            self.times.append(time.monotonic())


@contextmanager
def connected(hosts: list[str], options: dict[str, Any]) -> Iterator[Client]:
    with pymongo.MongoClient[dict[str, Any]](
        hosts, replicaSet="rs", serverSelectionTimeoutMS=5000, socketTimeoutMS=20_000, **options
    ) as client:
        yield client


@contextmanager
def at(member: Member, options: dict[str, Any]) -> Iterator[Client]:
    with pymongo.MongoClient[dict[str, Any]](
        member.address, directConnection=True, serverSelectionTimeoutMS=2000, **options
    ) as client:
        yield client


def roll(directory: Path, say: Any = print) -> Findings:
    """Carry out all steps under load."""
    findings = Findings()
    key_file = directory / "key"
    write_keys(key_file, (OLD,))
    steps = steps_of(key_file, Authority(directory / "certificates"))
    with stopped_at_end(Deployment(directory / "nodes")) as deployment:
        members = replica_set("rs", 3, [])
        for member in members:
            member.arguments.remove("--shardsvr")
        plain = list(members[0].arguments)
        deployment.start(*members)
        initiate(members)
        load = Load([member.address for member in members])
        with load.running():
            wait_until(lambda: len(load.times) > WRITERS, STEP_SECONDS)
            for step in steps:
                began = time.monotonic()
                take(deployment, members, [*plain, *step.arguments], load, key_file, step.keys)
                load.options = step.client
                mark = len(load.times)
                wait_until(lambda mark=mark: len(load.times) > mark + 10 * WRITERS, STEP_SECONDS)
                seconds, pause = time.monotonic() - began, load.longest_pause(began)
                findings.steps.append((step.name, seconds, pause))
                say(f"{step.name:28} {seconds:6.1f} s, longest pause {pause:5.2f} s, {len(load.acknowledged)} written")
                if pause > LONGEST_PAUSE:
                    findings.wrong.append(f"{step.name}: {pause:.0f} s without an acknowledgement")
        findings.acknowledged = load.acknowledged
        judge(members, steps[-1].client, findings)
    return findings


def write_keys(path: Path, keys: tuple[str, ...]) -> None:
    path.touch(mode=0o600)
    path.write_text("\n".join(f"- {key}" for key in keys) + "\n")


def initiate(members: list[Member]) -> None:
    rows = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
    with at(members[0], {}) as client:
        client.admin.command("replSetInitiate", {"_id": "rs", "members": rows})
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], STEP_SECONDS)
        client.admin.command("createUser", "root", pwd=CREDENTIALS["password"], roles=["root"])


def take(
    deployment: Deployment,
    members: list[Member],
    arguments: list[str],
    load: Load,
    key_file: Path,
    keys: tuple[str, ...],
) -> None:
    """Start every member anew with these arguments, the primary last; each takes part again before the next."""
    write_keys(key_file, keys)
    for member in sorted(members, key=lambda member: state_of(member, load.options) == "PRIMARY"):
        os.kill(member.pid, signal.SIGTERM)
        wait_until(lambda member=member: not member.running, STEP_SECONDS)
        member.arguments[:] = arguments
        deployment.restart(member.name)
        wait_until(lambda member=member: state_of(member, load.options) in ("PRIMARY", "SECONDARY"), STEP_SECONDS)
        wait_until(lambda: sorted(states(members, load.options)) == ["PRIMARY", "SECONDARY", "SECONDARY"], STEP_SECONDS)


def states(members: list[Member], options: dict[str, Any]) -> list[str]:
    return [state_of(member, options) for member in members]


def state_of(member: Member, options: dict[str, Any]) -> str:
    """What a member says of itself; "" where it says nothing."""
    with suppress(PyMongoError), at(member, options) as client:
        hello = client.admin.command("hello")
        return "PRIMARY" if hello["isWritablePrimary"] else "SECONDARY" if hello["secondary"] else "OTHER"
    return ""


def judge(members: list[Member], options: dict[str, Any], findings: Findings) -> None:
    """Hold what the members have against what was acknowledged, and see who is let in."""
    for member in members:
        with at(member, options) as client:

            def missing(client: Client = client) -> set[int]:
                reading = pymongo.ReadPreference.SECONDARY_PREFERRED
                found = client.test.get_collection("c", read_preference=reading).find({}, {"_id": 1})
                return findings.acknowledged - {each["_id"] for each in found}

            with suppress(AssertionError, TimeoutError):
                wait_until(lambda: not missing(), STEP_SECONDS)
            lost = missing()
            if lost:
                findings.wrong.append(f"{member.name} lacks {len(lost)} acknowledged documents, such as {min(lost)}")
        encrypted = {name: value for name, value in options.items() if name.startswith("tls")}
        for what, given in (("a plain connection", CREDENTIALS), ("a stranger", encrypted)):
            with suppress(PyMongoError), at(member, given) as client:
                client.test.c.find_one()
                findings.wrong.append(f"{member.name} answers {what}")
