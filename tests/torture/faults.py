"""What is done to the servers of a run while clients use them; everything is undone in the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.checkers.history import Anomaly
from tests.torture.network import Host
from tests.torture.processes import NotReady, Processes, Server
from tests.torture.proxy import ProxyNetwork
from tests.torture.wire import Lost, NotSent, Refused

Fault = Callable[[], Awaitable[None]]
HUNG_SECONDS = 20.0
"""A server that runs and has not answered for so long hangs; pauses are shorter."""
FAILURES = (NotSent, Lost, Refused)


class Nemesis:
    """Breaks something every second or so, and mends it some time later. `done`: how often, by kind.

    `groups` are the replica sets of the run: a fault concerns the members of one of them, or one server alone.
    `hidden`: from when to when a primary may have been out of reach of its set without knowing that it is none any
    more, on the clock of the event loop.
    """

    def __init__(self, processes: Processes, groups: Sequence[Sequence[Server]], seed: int) -> None:
        self.random = random.Random(f"{seed}/faults")
        self.processes = processes
        self.groups = groups
        self.done: Counter[str] = Counter()
        self.anomalies: list[Anomaly] = []
        self.story: list[str] = []
        self.hidden: list[tuple[float, float]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def kinds(self) -> list[Fault]:
        found: list[Fault] = [self.partition, self.isolate_primary, self.isolate_primary, self.one_way, self.bridge]
        found += [self.pause, self.pause_primary, self.kill, self.kill_primary, self.kill_all]
        found += [self.step_down, self.reconfigure, self.reconfigure]
        found += [self.skew_clock] if self.processes.clocks_can_be_skewed else []
        return found + ([self.slow_link] if isinstance(self.processes.network, ProxyNetwork) else [])

    async def run(self, seconds: float) -> None:
        """Faults for that time, at most two at once."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        kinds = self.kinds()
        watches = [asyncio.create_task(self._watch(server)) for server in self.processes.servers.values()]
        while loop.time() < end:
            if len(self._tasks) < 2:
                task = asyncio.create_task(self._carry_out(self.random.choice(kinds)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(min(self.random.uniform(0.5, 4), max(0.0, end - loop.time())))
            await self._look_after()
        for watch in watches:
            watch.cancel()

    async def heal(self) -> None:
        """No more faults: everything is mended, runs and answers."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.processes.network.heal()
        for server in self.processes.servers.values():
            self.processes.resume(server)
            self.processes.set_clock(server, 0)
        await self._look_after()
        await asyncio.gather(*[self._up(server) for server in self.processes.servers.values()])

    async def _carry_out(self, fault: Fault) -> None:
        name = fault.__name__.replace("_", " ")
        self.done[name] += 1
        with contextlib.suppress(*FAILURES):
            await fault()

    async def _look_after(self) -> None:
        """A server that ended though nobody killed it is an anomaly; it is started again."""
        for server in self.processes.servers.values():
            if server.wanted and not server.running:
                text = f"{server.name} ended with {server.process.returncode if server.process else None}"
                self.anomalies.append(Anomaly("server ended", f"{text}:\n{self.processes.tail(server)}"))
                await self._up(server)

    async def _watch(self, server: Server) -> None:
        """A server that hangs is an anomaly; it is ended with its stacks in the log, and started again."""
        loop = asyncio.get_running_loop()
        answered, process = loop.time(), server.process
        while True:
            await asyncio.sleep(2)
            with contextlib.suppress(*FAILURES):
                await server.ask({"hello": 1}, timeout=5)
                answered = loop.time()
            if server.process is not process or server.paused or not server.running:
                answered, process = loop.time(), server.process
            if loop.time() > answered + HUNG_SECONDS:
                self.processes.abort(server)
                self.anomalies.append(Anomaly("server hangs", f"{server.name}:\n{self.processes.tail(server)}"))
                await self._up(server)

    async def _up(self, server: Server) -> None:
        server.wanted = True
        try:
            if not server.running:
                self.processes.spawn(server)
            await self.processes.ready(server)
        except NotReady as error:
            if not server.wanted:
                return  # killed again
            self.anomalies.append(Anomaly("server does not start", str(error)))

    def tell(self, text: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():.3f} {text}")

    # The faults, each of which waits and undoes what it did.

    async def partition(self) -> None:
        members = list(self._group())
        self.random.shuffle(members)
        size = self.random.randint(1, len(members) - 1)
        await self._cut([(a.host, b.host) for a in members[:size] for b in members[size:]])

    async def isolate_primary(self) -> None:
        group = self._group()
        primary = await primary_of(group)
        if primary is not None:
            await self._cut([(primary.host, other.host) for other in group if other is not primary])

    async def one_way(self) -> None:
        a, b = self.random.sample(list(self._group()), 2)
        await self._cut([(a.host, b.host)], both=False)

    async def slow_link(self) -> None:
        network = self.processes.network
        assert isinstance(network, ProxyNetwork), "only a proxy delays"
        a, b = self.random.sample(list(self._group()), 2)
        seconds = self.random.choice([0.05, 0.3, 1.0])
        self.tell(f"{a.name}>{b.name} takes {seconds} s")
        network.delay([(a.host, b.host)], seconds)
        try:
            await asyncio.sleep(self.random.uniform(1, 9))
        finally:
            network.delay([(a.host, b.host)], 0)

    async def bridge(self) -> None:
        """Two halves that only one member reaches both of."""
        members = list(self._group())
        self.random.shuffle(members)
        middle = len(members) // 2
        await self._cut([(a.host, b.host) for a in members[:middle] for b in members[middle + 1 :]])

    async def pause(self) -> None:
        await self._pause(self.random.choice(self._group()))

    async def pause_primary(self) -> None:
        primary = await primary_of(self._group())
        if primary is not None:
            await self._pause(primary)

    async def kill(self) -> None:
        await self._kill([self.random.choice(self._group())])

    async def kill_primary(self) -> None:
        primary = await primary_of(self._group())
        if primary is not None:
            await self._kill([primary])

    async def kill_all(self) -> None:
        """Every member of a set at one moment."""
        await self._kill(list(self._group()))

    async def skew_clock(self) -> None:
        server = self.random.choice(self._group())
        skew = self.random.choice([-1, 1]) * self.random.choice([0.2, 2, 30])
        self.tell(f"clock of {server.name} is wrong by {skew} s")
        self.processes.set_clock(server, skew)
        try:
            await asyncio.sleep(self.random.uniform(1, 8))
        finally:
            self.processes.set_clock(server, 0)

    async def step_down(self) -> None:
        primary = await primary_of(self._group())
        if primary is not None:
            self.tell(f"{primary.name} is to step down")
            command = {"replSetStepDown": self.random.randint(2, 6), "secondaryCatchUpPeriodSecs": 1}
            await primary.ask({**command, "force": self.random.random() < 0.5})

    async def reconfigure(self) -> None:
        """Take a member out, change its priority or its vote; later make it a full member again."""
        group = self._group()
        member = self.random.choice(group)
        change = self.random.choice(["out", "priority", "vote"])
        self.tell(f"reconfig of {member.name}: {change}")

        def changed(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
            others = [each for each in members if each["host"] != member.address]
            own = [each for each in members if each["host"] == member.address]
            if change == "out" and len(others) > 1:
                return others
            fields = (
                {"priority": self.random.choice([0, 1, 5])} if change == "priority" else {"priority": 0, "votes": 0}
            )
            return [*others, *[{**each, **fields} for each in own]]

        await reconfigure(group, changed)
        await asyncio.sleep(self.random.uniform(1, 5))
        await reconfigure(group, lambda members: full_members(group, members))

    async def _cut(self, pairs: Sequence[tuple[Host, Host]], *, both: bool = True) -> None:
        links = [*pairs, *([(b, a) for a, b in pairs] if both else [])]
        self.tell("cut " + ", ".join(f"{a.name}>{b.name}" for a, b in links))
        began = asyncio.get_running_loop().time()
        self.processes.network.cut(links)
        try:
            await asyncio.sleep(self.random.uniform(1, 9))
        finally:
            self.hidden.append((began, asyncio.get_running_loop().time()))
            self.tell("mend " + ", ".join(f"{a.name}>{b.name}" for a, b in links))
            self.processes.network.mend(links)

    async def _pause(self, server: Server) -> None:
        self.tell(f"pause {server.name}")
        began = asyncio.get_running_loop().time()
        self.processes.pause(server)
        try:
            await asyncio.sleep(self.random.uniform(0.3, 7))
        finally:
            self.tell(f"resume {server.name}")
            self.processes.resume(server)
            self.hidden.append((began, asyncio.get_running_loop().time()))

    async def _kill(self, servers: Sequence[Server]) -> None:
        self.tell("kill " + ", ".join(server.name for server in servers))
        victims = [server for server in servers if server.wanted]
        for server in victims:
            server.wanted = False
            self.processes.kill(server)
        await asyncio.sleep(self.random.choice([0, 0.5, 3]))
        self.tell("start " + ", ".join(server.name for server in victims))
        await asyncio.gather(*[self._up(server) for server in victims])

    def _group(self) -> Sequence[Server]:
        return self.random.choice(self.groups)


async def primary_of(group: Sequence[Server]) -> Server | None:
    """The member that calls itself primary, or one of them."""

    async def asked(server: Server) -> Server | None:
        with contextlib.suppress(*FAILURES):
            if server.running and not server.paused:
                hello = await server.ask({"hello": 1}, timeout=1)
                return server if hello.get("isWritablePrimary") else None
        return None

    return next((server for server in await asyncio.gather(*map(asked, group)) if server is not None), None)


Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


async def reconfigure(group: Sequence[Server], changed: Change) -> None:
    """One safe reconfig by the primary. NotSent, Lost, Refused."""
    primary = await primary_of(group)
    if primary is None:
        raise NotSent("no primary")
    config = (await primary.ask({"replSetGetConfig": 1}))["config"]
    members = changed(config["members"])
    if members == config["members"]:
        return
    config |= {"members": members, "version": config["version"] + 1}
    config.pop("term", None)
    await primary.ask({"replSetReconfig": config, "maxTimeMS": 5000}, timeout=8)


def full_members(group: Sequence[Server], members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The members with one more of the group made a full member, since a reconfig adds at most one voter."""
    found = {each["host"]: each for each in members}
    for number, server in enumerate(group):
        old = found.get(server.address)
        if old is None or old.get("votes") == 0 or old.get("priority") != 1:
            found[server.address] = {"_id": number, "host": server.address, "votes": 1, "priority": 1}
            return sorted(found.values(), key=lambda each: each["_id"])
    return members
