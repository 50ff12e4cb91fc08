"""A replica set, and the parts of it that clusters use for their sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from docstore.testing.deployment import Deployment, at_least_one, wait_until
from docstore.testing.member import Member

ELECTION_SECONDS = 2.0


class MemberSet:
    """The members of one set of a deployment: initiation and state."""

    def __init__(self, deployment: Deployment, name: str, members: Sequence[Member], election_seconds: float) -> None:
        self.name = name
        self.members = tuple(members)
        self._deployment = deployment
        self._election_ms = int(election_seconds * 1000)

    @property
    def address(self) -> str:
        """ "set/host:port,host:port", as routers know it."""
        return f"{self.name}/{','.join(member.address for member in self.members)}"

    def initiate(self, **fields: Any) -> None:
        """Make the set; the first member becomes its primary. `fields`: more of its configuration."""
        rows = [{"_id": number, "host": member.address} for number, member in enumerate(self.members)]
        settings = {"electionTimeoutMillis": self._election_ms, "heartbeatIntervalMillis": self._election_ms // 5}
        config = {"_id": self.name, "members": rows, "settings": settings, **fields}
        self._deployment.probe(self.members[0]).admin.command("replSetInitiate", config)

    def wait(self) -> None:
        """Return when one is primary, and every other that runs is a secondary. Errors: StartFailed."""
        for member in self.members:
            if member.answers:
                wait_until(partial(self._has_role, member), f"{member.name} is primary or secondary")
        self.wait_primary()

    def wait_primary(self) -> Member:
        """The member that takes writes, once there is one. Errors: StartFailed."""
        primaries: list[Member] = []

        def look() -> bool:
            primaries[:] = filter(None, [self.primary()])
            return bool(primaries)

        wait_until(look, f"{self.name} has a primary")
        return primaries[0]

    def primary(self) -> Member | None:
        """The member that takes writes, if there is one now."""
        for member in self.members:
            if member.answers and self._hello(member)["isWritablePrimary"]:
                return member
        return None

    def step_down(self, seconds: int = 60) -> None:
        """Make the primary step down; it stays ineligible for that long. Errors: StartFailed, those of the driver."""
        self._deployment.probe(self.wait_primary()).admin.command("replSetStepDown", seconds)

    def _has_role(self, member: Member) -> bool:
        hello = self._hello(member)
        return bool(hello["isWritablePrimary"] or hello["secondary"])

    def _hello(self, member: Member) -> Mapping[str, Any]:
        return self._deployment.probe(member).admin.command("hello")


class ReplicaSet(Deployment):
    """A replica set of `members` data nodes."""

    def __init__(
        self,
        members: int = 3,
        *,
        name: str = "rs0",
        election_seconds: float = ELECTION_SECONDS,
        engine: str = "rocksdb",
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """`election_seconds`: how long a primary is not heard of before another is elected."""
        at_least_one(members=members)
        super().__init__(engine=engine, parameters=parameters)
        nodes = [self._add(f"{name}-{number}", "mongod", "--replSet", name) for number in range(members)]
        self.set = MemberSet(self, name, nodes, election_seconds)

    @property
    def uri(self) -> str:
        hosts = ",".join(member.address for member in self.set.members)
        return f"mongodb://{hosts}/?replicaSet={self.set.name}"

    def settle(self) -> None:
        self.set.wait()

    def primary(self) -> Member:
        """The member that takes writes; waits for one. Errors: StartFailed."""
        return self.set.wait_primary()

    def step_down(self, seconds: int = 60) -> None:
        """Make the primary step down; it stays ineligible for that long."""
        self.set.step_down(seconds)

    def _start(self) -> None:
        self._launch(*self.set.members)
        self.set.initiate()
        self.set.wait()
