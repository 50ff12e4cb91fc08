"""Requests of the wide-column mode to shards: how long they are waited for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import bson
import pytest
from bson.binary import Binary

from docstore.commands.concerns import PRIMARY, ReadMode, ReadPreference
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.net.topology import Kind, Member, Topology
from docstore.sharding.routing import Routing
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import unavailable
from docstore.widecolumn.model.hint_origin import HintOrigin
from mongos.router import Router
from mongos.routing.requests import ShardReply
from mongos.widecolumn.hints import writes
from mongos.widecolumn.hints.writes import hinted
from mongos.widecolumn.shard_requests import ShardRequests

SECONDARY = ReadPreference(ReadMode.SECONDARY)
ROUTING = Routing("ks.F", "one", None)


class Shard:
    def __init__(self) -> None:
        self.asked: list[tuple[float | None, ReadPreference]] = []

    async def command(self, db: str, body: bytes, **options: Any) -> ShardReply:
        self.asked.append((options["deadline"], options["read_preference"]))
        return ShardReply("one", "here:1", body)


def requests_to(shard: Shard, *, deadline: float | None) -> ShardRequests:
    async def get(name: str) -> Shard:
        return shard

    router = SimpleNamespace(shards=SimpleNamespace(get=get), clock=lambda: 100.0)
    services = SimpleNamespace(parts={Router: router})
    context = SimpleNamespace(services=services, read_preference=SECONDARY, deadline=deadline, max_time_ms=0)
    return ShardRequests(cast(Context, context))


def ask(requests: ShardRequests, *, reading: bool) -> Any:
    return lambda: requests.ask(ROUTING, ["one"], b"\5\0\0\0\0", reading=reading)


def test_every_read_of_a_request_has_the_same_time_left() -> None:
    """However many pages a statement reads, the time for its answer is set apart once."""
    shard = Shard()
    requests = requests_to(shard, deadline=130.0)

    async def pages() -> None:
        for _ in range(3):
            await requests.reading(Level.ONE, ask(requests, reading=True))

    asyncio.run(pages())
    assert shard.asked == [(129.9, SECONDARY)] * 3


def test_a_write_goes_to_the_primary_and_is_given_up_before_a_long_deadline() -> None:
    shard = Shard()
    requests = requests_to(shard, deadline=130.0)
    asyncio.run(requests.writing(Level.ONE, ask(requests, reading=False)))
    assert shard.asked == [(105.0, PRIMARY)]


def test_a_write_that_is_given_up_late_still_becomes_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop may be busy when its time comes: the transport must not cut it off before it was kept."""
    kept: list[bytes] = []

    class Log:
        async def keep(self, keyspace: str, command: bytes) -> None:
            kept.append(command)

    async def write(context: Context, arguments: Any) -> Any:
        raise unavailable("ANY", 1, 0, write=True)

    async def origin(*_: Any) -> HintOrigin:
        return HintOrigin(UUID(int=7), 8)

    monkeypatch.setattr(writes, "_origin", origin)
    router = SimpleNamespace(hints=Log())
    context = SimpleNamespace(
        services=SimpleNamespace(parts={Router: router}), db="ks",
        deadline=100.0, progress=SimpleNamespace(deadline=None), read_preference=SECONDARY,
        raw=bson.encode({"wcInsert": "F", "key": "k", "maxTimeMS": 500}), command=SimpleNamespace(name="wcInsert"),
    )  # fmt: skip
    arguments = _Arguments(consistency="ANY", timestamp=None)
    awaited = hinted(write)(cast(Context, context), cast(Any, arguments))
    assert context.progress.deadline > 101, "before the command waits"

    async def reply() -> Any:
        return await awaited

    assert asyncio.run(reply())["hinted"] is True
    (command,) = map(bson.decode, kept)
    assert command["hint"] == {"family": Binary.from_uuid(UUID(int=7)), "at": 8}
    assert "maxTimeMS" not in command


def test_unavailable_says_how_many_members_are_needed_and_there() -> None:
    """One of three members is up: a quorum needs two."""
    hosts = ("a:1", "b:1", "c:1")
    topology = Topology(hosts, "one")
    topology.update(Member("a:1", Kind.SECONDARY, "one", hosts))

    async def command(*_: Any, **__: Any) -> ShardReply:
        raise CommandError(Code.FailedToSatisfyReadPreference, "no primary")

    shard = Shard()
    shard.command = command  # type: ignore[method-assign]
    shard.client = SimpleNamespace(topology=topology)  # type: ignore[attr-defined]
    requests = requests_to(shard, deadline=130.0)
    requests.router.definitions = SimpleNamespace(known=lambda _: None)  # type: ignore[assignment]
    requests._context.db = "ks"
    for level, counts in ((Level.QUORUM, (2, 1)), (Level.ALL, (3, 1)), (Level.ONE, (1, 0)), (Level.ANY, (1, 0))):
        with pytest.raises(CommandError) as failure:
            asyncio.run(requests.writing(level, ask(requests, reading=False)))
        assert failure.value.extra["wcException"] == "UnavailableException"
        assert (failure.value.extra["required"], failure.value.extra["alive"]) == counts


class _Arguments(dict[str, Any]):
    value = "F"
