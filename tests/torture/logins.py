"""Whether the time that a failed login takes tells who there is: names of users and of nobody, in turn.

On a node and through a router, by each mechanism, begun by saslStart and by hello. The users have roles and have logged
in a moment ago; each name is as long as any other. What is told apart is told by a rank test: `z` is how many standard
deviations the ranks of the users' times are from what they are of two samples of one kind, so that beyond 4 is a
difference, and `likelihood` is how often a user's time is the longer one of a pair, a half where nothing is told.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pymongo

from docstore.security.scram import MECHANISMS, ClientKeys
from docstore.security.scram_client import ClientConversation
from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.serving import BareClient

_UNBOUNDED = ("--setParameter", "failedLoginsPerAddress=0")
NAMES = 16
"""Of users, and of nobody."""


@dataclass(frozen=True)
class Compared:
    """Times of the first answer or of the refusal, in microseconds, of users and of nobody."""

    what: str
    users: Sequence[float]
    nobody: Sequence[float]

    @property
    def likelihood(self) -> float:
        return _rank_sum(self.users, self.nobody) / (len(self.users) * len(self.nobody))

    @property
    def z(self) -> float:
        a, b = len(self.users), len(self.nobody)
        deviation = math.sqrt(a * b * (a + b + 1) / 12)
        return (_rank_sum(self.users, self.nobody) - a * b / 2) / deviation

    def __str__(self) -> str:
        users, nobody = statistics.median(self.users), statistics.median(self.nobody)
        return (
            f"{self.what:44} users {users:7.1f} us, nobody {nobody:7.1f} us, likelihood {self.likelihood:.3f},"
            f" z {self.z:+.1f}"
        )


def measure_logins(directory: Path, samples: int, say: Any = print) -> list[Compared]:
    """So many failed logins of users, and of nobody, for each line."""
    with stopped_at_end(Deployment(directory)) as deployment:
        node = Member("node", "mongod", ["--auth", *_UNBOUNDED])
        config = Member("config", "configsvr", [])
        deployment.start(node, config)
        router = Member("router", "mongos", ["--configdb", config.address, *_UNBOUNDED])
        deployment.start(router)
        found: list[Compared] = []
        for member in (node, router):
            with pymongo.MongoClient[dict[str, Any]](member.address, directConnection=True) as client:
                _create_users(client)
            for mechanism in MECHANISMS:
                for speculative in (False, True):
                    what = f"{member.name}, {mechanism}, {'hello' if speculative else 'saslStart'}"
                    for each in asyncio.run(_compared(member.port, mechanism, speculative, samples, what)):
                        say(str(each))
                        found.append(each)
    return found


def _create_users(client: pymongo.MongoClient[dict[str, Any]]) -> None:
    client.admin.command("createUser", "root", pwd="r", roles=["root"])
    with pymongo.MongoClient[dict[str, Any]](
        *(client.address or ()), directConnection=True, username="root", password="r"
    ) as root:
        for number in range(NAMES):
            root.admin.command("createUser", _name("user", number), pwd="r", roles=["readWriteAnyDatabase", "dbAdmin"])


def _name(kind: str, number: int) -> str:
    return f"{kind}{number:04}"


async def _compared(port: int, mechanism: str, speculative: bool, samples: int, what: str) -> list[Compared]:
    """The first answer, and the refusal of a proof that is none."""
    times: dict[str, list[tuple[float, float]]] = {"user": [], "none": []}
    client = await BareClient.connect_to(port)
    kinds = list(times)
    for number in range(samples + 20):
        random.shuffle(kinds)
        for kind in kinds:
            found = await _fail(client, mechanism, _name(kind, number % NAMES), speculative)
            if number >= 20:
                times[kind].append(found)
    await client.close()
    return [
        Compared(f"{what}: {step}", *([each[place] for each in of] for of in times.values()))
        for place, step in enumerate(("challenge", "refusal"))
    ]


async def _fail(client: BareClient, mechanism: str, name: str, speculative: bool) -> tuple[float, float]:
    """Microseconds until the challenge, and from the proof until it is refused."""
    conversation = ClientConversation(mechanism, name, random.randbytes(18))
    start: dict[str, Any] = {"saslStart": 1, "mechanism": mechanism, "payload": conversation.first}
    began = perf_counter()
    if speculative:
        reply = (await client.ask({"hello": 1, "speculativeAuthenticate": {**start, "db": "admin"}}, db="admin"))[
            "speculativeAuthenticate"
        ]
    else:
        reply = await client.ask(start, db="admin")
    challenged = perf_counter()
    conversation.challenged(bytes(reply["payload"]))
    keys = ClientKeys(random.randbytes(20 if mechanism == "SCRAM-SHA-1" else 32), b"x")
    proof = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": conversation.proof(keys)}
    sent = perf_counter()
    refusal = await client.ask(proof, db="admin")
    ended = perf_counter()
    assert refusal["code"] == 18, refusal
    return (challenged - began) * 1e6, (ended - sent) * 1e6


def _rank_sum(first: Sequence[float], second: Sequence[float]) -> float:
    """Pairs in which the first sample's time is the longer one; a tie counts half."""
    ranked = sorted([(each, 0) for each in first] + [(each, 1) for each in second])
    below, pairs, at = 0.0, 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        of_second = sum(which for _, which in ranked[at:end])
        pairs += (end - at - of_second) * (below + of_second / 2)
        below += of_second
        at = end
    return pairs
