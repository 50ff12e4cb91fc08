"""Following a primary: over real sockets, with members that the test makes primary or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId

from docstore.commands.concerns import SECONDARY_PREFERRED
from docstore.errors import Code, CommandError
from docstore.net import Listener, NetworkError, Pool, ReplicaSetClient
from tests.harness.dispatching import FakeHost, command
from tests.harness.serving import LOOPBACK, run, serving, until


class FakeMember:
    """One member: says what the set says of it, and holds awaitable hellos until something changes."""

    def __init__(self, fake_set: FakeSet) -> None:
        self.set = fake_set
        self.host = FakeHost()
        self.changed = asyncio.Event()
        self.address = ""
        self.served = 0
        self.fail: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.asked = 0

    def commands(self) -> list[Any]:
        from docstore.commands.declaration import Parameter, Type

        held = (Parameter("topologyVersion", Type.OBJECT), Parameter("maxAwaitTimeMS", Type.INT))
        return [
            command("hello", self.hello, tolerant=True, parameters=held),
            command("work", self.work),
        ]

    def hello(self, context: Any, arguments: Any) -> Any:
        asked = arguments["topologyVersion"]
        if asked is not None and bson.decode(asked)["counter"] == self.host.counter:
            return self.hello_later()
        return self.reply()

    async def hello_later(self) -> dict[str, Any]:
        self.changed.clear()
        await self.changed.wait()
        return self.reply()

    def reply(self) -> dict[str, Any]:
        primary = self.set.primary is self
        reply = {
            "isWritablePrimary": primary, "secondary": not primary, "setName": "s", "hosts": self.set.hosts,
            "me": self.address, "setVersion": 1, "topologyVersion": self.host.state_version(),
        }  # fmt: skip
        if primary:
            reply["electionId"] = ObjectId(f"7fffffff{self.set.term:016x}")
        return reply

    def work(self, context: Any, arguments: Any) -> Any:
        self.asked += 1
        if self.fail is not None:
            raise self.fail
        if self.gate is not None:
            return self.gate.wait()
        if self.set.primary is not self and not context.read_preference.secondary_ok:
            raise CommandError(Code.NotWritablePrimary, "not primary")
        self.served += 1
        return {"by": self.address}


class FakeSet:
    def __init__(self) -> None:
        self.members = [FakeMember(self) for _ in range(3)]
        self.listeners: list[Listener] = []
        self.primary: FakeMember | None = None
        self.term = 0

    @property
    def hosts(self) -> list[str]:
        return [member.address for member in self.members]

    def elect(self, member: FakeMember | None) -> None:
        self.term += 1
        self.primary = member
        for each in self.members:
            each.host.counter += 1
            each.changed.set()


@contextlib.asynccontextmanager
async def fake_set() -> AsyncIterator[tuple[FakeSet, ReplicaSetClient]]:
    """A set whose first member is primary, and a client that knows only the last one."""
    it, pool = FakeSet(), Pool()
    async with contextlib.AsyncExitStack() as stack:
        for member in it.members:
            listener = await stack.enter_async_context(serving(*member.commands(), host=member.host))
            member.address = f"{LOOPBACK}:{listener.port}"
            it.listeners.append(listener)
        it.elect(it.members[0])
        client = ReplicaSetClient([it.hosts[-1]], "s", pool)
        try:
            yield it, client
        finally:
            await client.close()
            await pool.close()


async def work(client: ReplicaSetClient, **options: Any) -> str:
    return str(bson.decode(await client.command("test", {"work": 1}, timeout=5.0, **options))["by"])


async def work_held_by(member: FakeMember, client: ReplicaSetClient) -> asyncio.Task[str]:
    """Work that the member has begun and does not end."""
    member.gate = asyncio.Event()
    asked = member.asked
    waiting = asyncio.ensure_future(work(client))
    await until(lambda: member.asked > asked)
    return waiting


def test_the_primary_is_found_from_any_member() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            assert await work(client) == it.hosts[0]
            await until(lambda: client.connection_string == "s/" + ",".join(sorted(it.hosts)))

    run(scenario())


def test_a_new_primary_is_followed_as_soon_as_members_tell() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            await work(client)
            for member in (it.members[1], it.members[2], it.members[0]):
                it.elect(member)
                assert await work(client) == member.address

    run(scenario())


def test_the_primary_that_is_known_is_the_one_of_now() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            assert client.known_primary is None
            assert await work(client) == client.known_primary == it.hosts[0]
            it.elect(it.members[1])
            await until(lambda: client.known_primary == it.hosts[1])
            it.elect(None)
            await until(lambda: client.known_primary is None)
            it.elect(it.members[2])
            await until(lambda: client.known_primary == it.hosts[2])
            client.suspect(it.hosts[2])
            assert client.known_primary is None
            await until(lambda: client.known_primary == it.hosts[2])
            await client.close()
            assert client.known_primary is None

    run(scenario())


def test_a_command_waits_for_an_election() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            await work(client)
            it.elect(None)
            task = asyncio.ensure_future(work(client))
            await until(lambda: client._topology.primary is None)
            it.elect(it.members[2])
            assert await task == it.hosts[2]

    run(scenario())


def test_no_primary_in_time_is_an_error_that_says_so() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            it.elect(None)
            with pytest.raises(CommandError) as caught:
                await client.primary(0.1)
            assert caught.value.code == Code.FailedToSatisfyReadPreference

    run(scenario())


def test_reads_that_may_go_to_secondaries_take_turns() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            client.start()
            await until(lambda: len(client._topology.suitable(SECONDARY_PREFERRED)) == 2)
            chosen = {await client.select(SECONDARY_PREFERRED, 1.0) for _ in range(10)}
            assert chosen <= set(it.hosts[1:])

    run(scenario())


def test_a_dead_primary_is_replaced_and_a_repeatable_command_repeated() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            await work(client)
            await it.listeners[0].stop()
            task = asyncio.ensure_future(work(client, retry=True))
            await until(lambda: client._topology.primary is None)
            it.elect(it.members[1])
            assert await task == it.hosts[1]

    run(scenario())


def test_a_request_to_a_process_that_another_one_has_replaced_is_failed() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            await work(client)
            primary = it.members[0]
            waiting = await work_held_by(primary, client)
            primary.host.process_id = ObjectId()
            primary.host.counter += 1
            primary.changed.set()
            with pytest.raises(NetworkError) as caught:
                await waiting
            assert caught.value.sent
            assert "started anew" in caught.value.reason
            primary.gate = None
            assert await work(client) == primary.address

    run(scenario())


def test_the_last_primary_is_asked_at_once_when_another_one_has_its_place() -> None:
    """Its power has gone and come back: nothing comes over the old connections, that of the held hello either."""

    async def scenario() -> None:
        async with fake_set() as (it, client):
            await work(client)
            last = it.members[0]
            waiting = await work_held_by(last, client)
            last.host.process_id = ObjectId()
            it.primary, it.term = it.members[1], it.term + 1
            for member in it.members[1:]:
                member.host.counter += 1
                member.changed.set()
            with pytest.raises(NetworkError, match="started anew"):
                await waiting

    run(scenario())


def test_an_open_outcome_is_not_repeated_unasked() -> None:
    async def scenario() -> None:
        async with fake_set() as (it, client):
            await work(client)
            it.members[0].fail = CommandError(Code.InterruptedDueToReplStateChange, "stepped down")
            with pytest.raises(CommandError, match="stepped down"):
                await work(client)
            it.members[0].fail = CommandError(Code.BadValue, "no")
            with pytest.raises(CommandError, match="no"):
                await work(client, retry=True)

    run(scenario())


def test_a_standalone_is_a_set_of_one() -> None:
    async def scenario() -> None:
        hello = command("hello", lambda context, arguments: {"isWritablePrimary": True}, tolerant=True)
        async with serving(hello) as listener:
            pool = Pool()
            client = ReplicaSetClient([f"{LOOPBACK}:{listener.port}"], "", pool)
            assert await client.primary(5.0) == f"{LOOPBACK}:{listener.port}"
            await client.close()
            await pool.close()

    run(scenario())


def test_nobody_there_is_an_error_in_time_and_close_ends_every_wait() -> None:
    async def scenario() -> None:
        pool = Pool()
        client = ReplicaSetClient(["127.0.0.1:1"], "s", pool)
        with pytest.raises(CommandError):
            await client.primary(0.05)
        waiting = asyncio.ensure_future(client.primary(30.0))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(CommandError):
            await waiting
        await pool.close()
        with pytest.raises(NetworkError):
            await pool.command("127.0.0.1:1", "test", {"work": 1})

    run(scenario())
