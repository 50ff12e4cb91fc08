"""A set or a cluster that serves goes from nothing to a key file, access control, encryption, another key and other
certificates, process by process.

Clients write all the time with a majority's acknowledgement; in a cluster through both routers, half of them to each
shard. Judged by what is left: every acknowledged document is on every member, strangers and plain connections are
turned away in the end, every process shows the last certificate, and the longest time between two acknowledgements of
one replica set, which is the longest that it had no primary, is less than a minute.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymongo
from cryptography import x509
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
    """What all processes are started with from then on, and with what clients come once all are. `arguments` None: none
    is started anew, but all read certificates that have been made anew.
    """

    name: str
    arguments: list[str] | None
    client: dict[str, Any]
    keys: tuple[str, ...] = (OLD,)


@dataclass
class Findings:
    """`steps`: name, seconds, and the longest pause between two acknowledgements of a set in it. `wrong`: what must
    not be.
    """

    acknowledged: set[int] = field(default_factory=set)
    steps: list[tuple[str, float, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Topology:
    """Replica sets that hold data, by name, the config servers, and routers; a set alone has but one of the first."""

    shards: dict[str, list[Member]]
    config: list[Member] = field(default_factory=list)
    routers: list[Member] = field(default_factory=list)

    @property
    def sets(self) -> list[list[Member]]:
        """In the order in which they are started anew."""
        return [*([self.config] if self.config else []), *self.shards.values()]

    @property
    def everyone(self) -> list[Member]:
        return [*self.routers, *(member for members in self.sets for member in members)]

    @property
    def hosts(self) -> list[str]:
        """Where clients come."""
        return [member.address for member in self.routers or self.everyone]


def a_set(members: int = 3) -> Topology:
    made = replica_set("rs", members, [])
    for member in made:
        member.arguments.remove("--shardsvr")
    return Topology({"rs": made})


def a_cluster(members: int = 3) -> Topology:
    """Two shards, config servers, and two routers, which have to be told of the config servers' addresses."""
    config = [Member(f"config-{number}", "configsvr", ["--replSet", "config"]) for number in range(members)]
    shards = {name: replica_set(name, members, []) for name in ("low", "high")}
    return Topology(shards, config, [Member(f"router-{number}", "mongos", []) for number in range(2)])


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
        Step("new certificates", None, secure, (NEW,)),
    ]


class Load:
    """Threads that write, each document once, and remember what was acknowledged, and when.

    `_id`s of every second thread are negative: in a cluster those are on a shard of their own.
    """

    def __init__(self, topology: Topology) -> None:
        self.options: dict[str, Any] = {}
        self.acknowledged: set[int] = set()
        self.times: dict[int, list[float]] = {1: [], -1: []}
        self._hosts = topology.hosts
        self._set: dict[str, Any] = {} if topology.routers else {"replicaSet": next(iter(topology.shards))}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=((-1) ** number,), daemon=True) for number in range(WRITERS)
        ]

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

    def wait_for_more(self, count: int) -> None:
        """Return once so many more documents of each sign are acknowledged."""
        marks = {sign: len(times) for sign, times in self.times.items()}
        wait_until(
            lambda: all(len(self.times[sign]) > mark + count for sign, mark in marks.items()), STEP_SECONDS
        )  # fmt: skip

    def longest_pause(self, since: float) -> float:
        """Seconds between two acknowledgements of one sign one after another, now included."""
        with self._lock:
            found = [[since, *(each for each in times if each >= since)] for times in self.times.values()]
        return max(after - before for times in found for before, after in pairwise([*times, time.monotonic()]))

    def _run(self, sign: int) -> None:
        while not self._over.is_set():
            options = self.options
            with suppress(PyMongoError), self._connected(options) as client:
                while self.options is options and not self._over.is_set():
                    self._write(client, sign)

    def _write(self, client: Client, sign: int) -> None:
        number = sign * next(self._numbers)
        client.test.get_collection("c", write_concern=pymongo.WriteConcern(w="majority")).insert_one({"_id": number})
        with self._lock:
            self.acknowledged.add(number)
            self.times[sign].append(time.monotonic())

    def _connected(self, options: dict[str, Any]) -> Client:
        return pymongo.MongoClient(
            self._hosts, serverSelectionTimeoutMS=5000, socketTimeoutMS=20_000, **self._set, **options
        )


@contextmanager
def at(member: Member, options: dict[str, Any]) -> Iterator[Client]:
    with pymongo.MongoClient[dict[str, Any]](
        member.address, directConnection=True, serverSelectionTimeoutMS=2000, **options
    ) as client:
        yield client


def roll(directory: Path, topology: Topology, say: Any = print) -> Findings:
    """Carry out all steps under load."""
    findings = Findings()
    key_file = directory / "key"
    write_keys(key_file, (OLD,))
    authority = Authority(directory / "certificates")
    steps = steps_of(key_file, authority)
    with stopped_at_end(Deployment(directory / "nodes")) as deployment:
        build(deployment, topology)
        plain = {member.name: list(member.arguments) for member in topology.everyone}
        load = Load(topology)
        with load.running():
            load.wait_for_more(WRITERS)
            for step in steps:
                began = time.monotonic()
                write_keys(key_file, step.keys)
                if step.arguments is None:
                    replace_certificates(topology, authority, step.client)
                else:
                    for member in topology.everyone:
                        member.arguments[:] = [*plain[member.name], *step.arguments]
                    start_anew(deployment, topology, encryption_of(load.options))
                load.options = step.client
                load.wait_for_more(5 * WRITERS)
                seconds, pause = time.monotonic() - began, load.longest_pause(began)
                findings.steps.append((step.name, seconds, pause))
                say(f"{step.name:28} {seconds:6.1f} s, longest pause {pause:5.2f} s, {len(load.acknowledged)} written")
                if pause > LONGEST_PAUSE:
                    findings.wrong.append(f"{step.name}: {pause:.0f} s without an acknowledgement")
        findings.acknowledged = load.acknowledged
        judge(topology, steps[-1].client, findings)
    return findings


def write_keys(path: Path, keys: tuple[str, ...]) -> None:
    path.touch(mode=0o600)
    path.write_text("\n".join(f"- {key}" for key in keys) + "\n")


def build(deployment: Deployment, topology: Topology) -> None:
    """Start all, make sets and the cluster of them, and a user: in a cluster also one on each shard, to look there."""
    deployment.start(*(member for members in topology.sets for member in members))
    for name, members in topology.shards.items():
        initiate(name, members)
        create_user(members[0])
    if not topology.routers:
        return
    initiate("config", topology.config, configsvr=True)
    for router in topology.routers:
        router.arguments += ["--configdb", "config/" + ",".join(member.address for member in topology.config)]
    deployment.start(*topology.routers)
    create_user(topology.routers[0])
    with at(topology.routers[0], {}) as client:
        for name, members in topology.shards.items():
            hosts = ",".join(member.address for member in members)
            client.admin.command("addShard", f"{name}/{hosts}", name=name)
        low, high = topology.shards
        client.admin.command("enableSharding", "test", primaryShard=low)
        client.admin.command("shardCollection", "test.c", key={"_id": 1})
        client.admin.command("split", "test.c", middle={"_id": 0})
        client.admin.command("moveChunk", "test.c", find={"_id": 1}, to=high)


def initiate(name: str, members: list[Member], **fields: Any) -> None:
    rows = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
    with at(members[0], {}) as client:
        client.admin.command("replSetInitiate", {"_id": name, "members": rows, **fields})
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], STEP_SECONDS)


def create_user(member: Member) -> None:
    with at(member, {}) as client:
        client.admin.command("createUser", CREDENTIALS["username"], pwd=CREDENTIALS["password"], roles=["root"])


def start_anew(deployment: Deployment, topology: Topology, options: dict[str, Any]) -> None:
    """Every router, then every member of each set, its primary last; each takes part again before the next."""

    def one(member: Member, ready: Callable[[], bool]) -> None:
        os.kill(member.pid, signal.SIGTERM)
        wait_until(lambda: not member.running, STEP_SECONDS)
        deployment.restart(member.name)
        wait_until(ready, STEP_SECONDS)

    def states(members: list[Member]) -> list[str]:
        return sorted(state_of(member, options) for member in members)

    def complete(members: list[Member]) -> bool:
        return states(members) == ["PRIMARY", *["SECONDARY"] * (len(members) - 1)]

    for members in ([router] for router in topology.routers):
        one(members[0], partial(complete, members))
    for members in topology.sets:
        for member in sorted(members, key=lambda member: state_of(member, options) == "PRIMARY"):
            one(member, partial(complete, members))


def state_of(member: Member, options: dict[str, Any]) -> str:
    """What a process says of itself; "" where it says nothing. A router, which takes writes, is a primary."""
    with suppress(PyMongoError), at(member, options) as client:
        hello = client.admin.command("hello")
        return "PRIMARY" if hello["isWritablePrimary"] else "SECONDARY" if hello["secondary"] else "OTHER"
    return ""


def encryption_of(options: dict[str, Any]) -> dict[str, Any]:
    """Those without which nobody gets an answer from processes that want encryption."""
    return {name: value for name, value in options.items() if name.startswith("tls")}


def replace_certificates(topology: Topology, authority: Authority, options: dict[str, Any]) -> None:
    """Put new ones into the files of the old ones, and have every process read them."""
    authority.issue("client")
    authority.issue("server")
    for member in topology.everyone:
        with at(member, options) as client:
            client.admin.command("rotateCertificates")


def judge(topology: Topology, options: dict[str, Any], findings: Findings) -> None:
    """Hold what the members have against what was acknowledged, and see who is let in."""
    for sign, members in zip((-1, 1), (list(topology.shards.values()) * 2)[:2], strict=True):
        wanted = {number for number in findings.acknowledged if number * sign > 0}
        for member in members:
            _judge_documents(member, options, wanted, findings)
    for router in topology.routers:
        _judge_documents(router, options, findings.acknowledged, findings)
    serial = x509.load_pem_x509_certificate(
        (Path(options["tlsCAFile"]).parent / "server.pem").read_bytes()
    ).serial_number  # fmt: skip
    for member in topology.everyone:
        if _serial_of(member, options) != serial:
            findings.wrong.append(f"{member.name} shows another certificate than the last")
        for what, given in (("a plain connection", CREDENTIALS), ("a stranger", encryption_of(options))):
            with suppress(PyMongoError), at(member, given) as client:
                client.test.c.find_one()
                findings.wrong.append(f"{member.name} answers {what}")


def _judge_documents(member: Member, options: dict[str, Any], wanted: set[int], findings: Findings) -> None:
    with at(member, options) as client:

        def missing() -> set[int]:
            reading = pymongo.ReadPreference.SECONDARY_PREFERRED
            found = client.test.get_collection("c", read_preference=reading).find({}, {"_id": 1})
            return wanted - {each["_id"] for each in found}

        with suppress(AssertionError, TimeoutError):
            wait_until(lambda: not missing(), STEP_SECONDS)
        lost = missing()
        if lost:
            findings.wrong.append(f"{member.name} lacks {len(lost)} acknowledged documents, such as {min(lost)}")


def _serial_of(member: Member, options: dict[str, Any]) -> int:
    """The serial number of the certificate that a process shows."""
    context = ssl.create_default_context(cafile=options["tlsCAFile"])
    context.load_cert_chain(options["tlsCertificateKeyFile"])
    with (
        socket.create_connection(("127.0.0.1", member.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        shown = encrypted.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number
