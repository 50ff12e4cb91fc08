"""Finding the config servers, and making one set of a bare list."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from mongos.routing.bootstrap import IMPLICIT_SET, ConfigDb, ConfigServersMissing, find_config_servers

HOSTS = ("h2:1", "h1:1", "h3:1")


class FakePool:
    """Hosts that say what they were told to say; an initiation makes all hosts members."""

    def __init__(self, hellos: Mapping[str, dict[str, Any] | None], refusal: CommandError | None = None) -> None:
        self.hellos = dict(hellos)
        self.refusal = refusal
        self.initiated: list[tuple[str, dict[str, Any]]] = []

    async def command(self, address: str, db: str, command: dict[str, Any], **_: Any) -> bytes:
        hello = self.hellos[address]
        if hello is None:
            raise NetworkError(address, "refused", sent=False)
        if "hello" in command:
            return bson.encode(hello)
        self.initiated.append((address, command["replSetInitiate"]))
        self.hellos = {host: {"setName": command["replSetInitiate"]["_id"]} for host in self.hellos}
        if self.refusal is not None:
            raise self.refusal
        return bson.encode({"ok": 1})


class Clock:
    """Seconds that pass with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 20.0
        return self.now


def find(text: str, pool: FakePool) -> str:
    return find_and_tell(text, pool)[0]


def find_and_tell(text: str, pool: FakePool, told: list[str] | None = None) -> tuple[str, list[str]]:
    """(the set's name, what was waited for)."""
    told = [] if told is None else told
    configdb = ConfigDb.parse(text)
    return asyncio.run(find_config_servers(configdb, pool, Clock(), lambda *_: None, told.append)), told


def test_a_bare_list_is_initiated_on_its_first_host_in_sorted_order():
    pool = FakePool({key: {"isreplicaset": True} for key in HOSTS})
    assert find(",".join(HOSTS), pool) == IMPLICIT_SET
    ((host, config),) = pool.initiated
    assert host == "h1:1"
    assert [row["host"] for row in config["members"]] == sorted(HOSTS)


def test_a_router_that_comes_second_finds_the_set_initiated():
    refusal = CommandError(Code.AlreadyInitialized, "already initialized")
    pool = FakePool({key: {"isreplicaset": True} for key in HOSTS}, refusal)
    assert find(",".join(HOSTS), pool) == IMPLICIT_SET


def test_a_list_with_a_dead_host_is_not_initiated():
    pool = FakePool({"h1:1": {"isreplicaset": True}, "h2:1": None})
    with pytest.raises(ConfigServersMissing, match="h2:1"):
        find("h1:1,h2:1", pool)
    assert not pool.initiated


def test_whoever_waits_is_told_for_what_and_not_for_ever():
    told: list[str] = []
    with pytest.raises(ConfigServersMissing, match="no answer from h2:1"):
        find_and_tell("h1:1,h2:1", FakePool({"h1:1": {"isreplicaset": True}, "h2:1": None}), told)
    assert told == ["no answer from h2:1"]


def test_a_router_with_another_key_is_told_so():
    class Guarded(FakePool):
        async def command(self, address: str, db: str, command: dict[str, Any], **_: Any) -> bytes:
            raise NetworkError(address, "authentication failed", sent=False, code=Code.AuthenticationFailed)

    with pytest.raises(ConfigServersMissing, match=r"another key than that of --keyFile is known to h1:1, h2:1"):
        find("csrs/h2:1,h1:1", Guarded({}))


def test_hosts_that_never_let_themselves_be_initiated_are_given_up():
    class Unwilling(FakePool):
        async def command(self, address: str, db: str, command: dict[str, Any], **_: Any) -> bytes:
            if "hello" in command:
                return bson.encode({"isreplicaset": True})
            raise CommandError(Code.NodeNotFound, "no quorum")

    told: list[str] = []
    with pytest.raises(ConfigServersMissing, match="no quorum"):
        find_and_tell("h1:1,h2:1", Unwilling({}), told)
    assert told == ["h1:1 does not initiate the config servers: no quorum"]


def test_a_dead_host_does_not_matter_once_the_set_is_there():
    assert find("h1:1,h2:1", FakePool({"h1:1": {"setName": IMPLICIT_SET}, "h2:1": None})) == IMPLICIT_SET


def test_a_named_set_that_nobody_initiated_is_left_alone():
    pool = FakePool({"h1:1": {"isreplicaset": True}})
    with pytest.raises(ConfigServersMissing, match=r"rs\.initiate"):
        find("csrs/h1:1", pool)
    assert not pool.initiated


@pytest.mark.parametrize(
    ("text", "hellos", "word"),
    [
        ("csrs/h1:1", {"h1:1": {"setName": "other"}}, "other"),
        ("h1:1,h2:1", {"h1:1": {"setName": "one"}, "h2:1": {"setName": "two"}}, "different sets"),
    ],
)
def test_hosts_of_another_set_are_refused(text, hellos, word):
    with pytest.raises(ConfigServersMissing, match=word):
        find(text, FakePool(hellos))


@pytest.mark.parametrize("text", ["", "a,b", "/h:1", "h:1,h:1", "h:0", "h:x", "set/", "h:1,,g:1"])
def test_a_malformed_list_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match="--configdb"):
        ConfigDb.parse(text)
