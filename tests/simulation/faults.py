"""Disturbances for a simulated replica set, drawn from a generator of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from docstore.replication.config import MemberConfig
from docstore.replication.progress import Acknowledgement
from tests.simulation.cluster import Cluster, Member

W1 = Acknowledgement(w=1, journal=False)
MAJORITY = Acknowledgement(w="majority", journal=True)


class Nemesis:
    """Breaks something every second or so, and mends it again some time later."""

    def __init__(self, cluster: Cluster, *, reconfigures: bool = False) -> None:
        self._cluster = cluster
        self._reconfigures = reconfigures
        self._stopped = False
        self.done: dict[str, int] = {}

    def start(self) -> None:
        self._next()

    def stop(self) -> None:
        """No more faults, and everything mended."""
        self._stopped = True
        cluster = self._cluster
        cluster.cut.clear()
        cluster.loss = 0.0
        for member in cluster.members.values():
            if not member.running:
                member.start()

    def _next(self) -> None:
        if self._stopped:
            return
        rng = self._cluster.random
        choices: list[Callable[[], None]] = [
            self.kill, self.kill, self.split, self.split, self.isolate_primary, self.cut_one_way, self.lose, self.flap,
            self.step_down, self.skew, self.power_cut, self.bounce_voters,
        ]  # fmt: skip
        if self._reconfigures:
            choices += [self.reconfigure] * 8
        fault = rng.choice(choices)
        self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
        fault()
        self._cluster.at(rng.uniform(0.1, 2.5), self._next)

    def kill(self) -> None:
        member = self._cluster.random.choice(list(self._cluster.members.values()))
        if member.running:
            member.crash()
            self._start_later(member, self._cluster.random.uniform(0.05, 4))

    def power_cut(self) -> None:
        """All at once lose what is not on disk, and come back."""
        for member in self._cluster.members.values():
            if member.running:
                member.crash()
                self._start_later(member, self._cluster.random.uniform(0.01, 0.5))

    def bounce_voters(self) -> None:
        """The primary goes, and while the others elect they die and come back within moments, forgetting what they
        can."""
        primary = self._cluster.primary()
        if primary is None:
            return
        primary.crash()
        self._start_later(primary, 3)
        for member in self._cluster.running():
            for _ in range(6):
                self._cluster.at(self._cluster.random.uniform(0.9, 1.4), lambda member=member: self._bounce(member))

    def reconfigure(self) -> None:
        """Add a process to the set or take one out, as the primary sees it."""
        primary = self._cluster.primary()
        config = None if primary is None else primary.core.state.config
        if primary is None or config is None:
            return
        host = self._cluster.random.choice(list(self._cluster.members))
        members = [member for member in config.members if member.host != host]
        if len(members) == len(config.members):
            free = next(number for number in range(20) if config.member(number) is None)
            members.append(MemberConfig(id=free, host=host))
        if host != primary.host and members:
            primary.reconfigure(replace(config, members=tuple(members), version=config.version + 1))

    def _bounce(self, member: Member) -> None:
        if member.running:
            member.crash()
            self._start_later(member, 0.001)

    def _start_later(self, member: Member, delay: float) -> None:
        def start() -> None:
            if not member.running:
                member.start()

        self._cluster.at(delay, start)

    def split(self) -> None:
        hosts = list(self._cluster.members)
        self._cluster.random.shuffle(hosts)
        size = self._cluster.random.randint(1, len(hosts) - 1)
        self._cut([(a, b) for a in hosts[:size] for b in hosts[size:]])

    def isolate_primary(self) -> None:
        primary = self._cluster.primary()
        if primary is not None:
            self._cut([(primary.host, other) for other in self._cluster.members if other != primary.host])

    def cut_one_way(self) -> None:
        a, b = self._cluster.random.sample(list(self._cluster.members), 2)
        self._cut([(a, b)], both=False)

    def flap(self) -> None:
        for delay in range(5):
            self._cluster.at(delay * 0.3, self.cut_one_way)

    def lose(self) -> None:
        self._cluster.loss = self._cluster.random.choice([0.0, 0.05, 0.2])

    def step_down(self) -> None:
        primary = self._cluster.primary()
        if primary is not None:
            primary.step_down(self._cluster.random.uniform(0.5, 2))

    def skew(self) -> None:
        """Clocks jump: entries of a later term may carry earlier times."""
        member = self._cluster.random.choice(list(self._cluster.members.values()))
        member.skew = self._cluster.random.randint(-50, 50)

    def _cut(self, pairs: list[tuple[str, str]], *, both: bool = True) -> None:
        links = set(pairs) | ({(b, a) for a, b in pairs} if both else set())
        self._cluster.cut |= links
        self._cluster.at(self._cluster.random.uniform(0.2, 4), lambda: self._cluster.cut.difference_update(links))


class Clients:
    """Write ever new values to whoever takes them, half with w: 1, half with w: "majority"."""

    def __init__(self, cluster: Cluster, interval: float = 0.05) -> None:
        self._cluster = cluster
        self._interval = interval
        self._stopped = False
        self.written = 0

    def start(self) -> None:
        self._next()

    def stop(self) -> None:
        self._stopped = True

    def _next(self) -> None:
        if self._stopped:
            return
        rng = self._cluster.random
        writable = [member for member in self._cluster.running() if member.core.state.writable]
        if writable:
            self.written += 1
            rng.choice(writable).write(self.written, rng.choice([W1, MAJORITY]))
        self._cluster.at(rng.expovariate(1 / self._interval), self._next)
