"""The common parts of standalone nodes, replica sets and clusters: members, their start and end, faults, a client."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from docstore.testing.launcher import Launcher, StartFailed
from docstore.testing.member import Member

if TYPE_CHECKING:
    from pymongo import MongoClient

WAIT_SECONDS = 60.0
"""The time for a set or cluster to get ready, on a busy machine."""

_LOOK_SECONDS = 0.005
_PROBE_MS = 10_000


class Deployment:
    """Some servers that live as long as the context. It may be entered once, with `with` or with `async with`."""

    programs: tuple[str, ...] = ("mongod",)
    """The executables that it starts."""

    def __init__(self, *, engine: str = "rocksdb", parameters: Mapping[str, Any] | None = None) -> None:
        """`engine`: "rocksdb" or "inMemory". `parameters`: server parameters of every member, as for setParameter."""
        self.engine = engine
        self.parameters = dict(parameters or {})
        self.members: dict[str, Member] = {}
        """Every server by its name."""
        self._launcher: Launcher | None = None
        self._directory: Path | None = None
        self._clients: dict[tuple[str, bool], MongoClient[dict[str, Any]]] = {}
        self._clients_lock = threading.Lock()

    @property
    def uri(self) -> str:
        """The connection string of the whole."""
        raise NotImplementedError

    def start(self) -> None:
        """Start every member, and return when a majority takes writes. After a StartFailed nothing is left."""
        if self._launcher is not None:
            raise RuntimeError("a deployment is started once: make another one")
        self._launcher = Launcher.shared(self.programs)
        try:
            self._directory = self._launcher.directory()
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every member and remove all data; safe to call twice."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for member in self.members.values():
            member.begin_kill()
        for member in self.members.values():
            member.wait_end()
            member.forget()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def client(self, member: str | Member | None = None) -> MongoClient[dict[str, Any]]:
        """Return a client of the whole, or of one member alone. It is cached, and closed with the deployment."""
        return self._client(self.uri if member is None else self.member(member).uri)

    def member(self, member: str | Member) -> Member:
        """A member by its name. Errors: KeyError."""
        return member if isinstance(member, Member) else self.members[member]

    def kill(self, member: str | Member) -> None:
        """kill -9; its data stays."""
        self.member(member).kill()

    def shut_down(self, member: str | Member) -> None:
        """End a server in good order: a primary hands over first. Its data stays."""
        self.member(member).terminate()

    def restart(self, member: str | Member) -> None:
        """Start a server again that is down, on its port and its data; one that runs is killed first."""
        server = self.member(member)
        server.kill()
        self._launch(server)

    def pause(self, member: str | Member) -> None:
        """Suspend a process (SIGSTOP): its connections stay open, and nothing answers."""
        self.member(member).pause()

    def resume(self, member: str | Member) -> None:
        """Resume a paused process."""
        self.member(member).resume()

    def settle(self) -> None:
        """Return when every set has a primary and each other member that runs is a secondary. Errors: StartFailed."""

    def probe(self, member: Member) -> MongoClient[dict[str, Any]]:
        """A client of one member that gives up soon."""
        return self._client(member.uri, serverSelectionTimeoutMS=_PROBE_MS, socketTimeoutMS=_PROBE_MS)

    def _client(self, uri: str, **options: Any) -> MongoClient[dict[str, Any]]:
        key = (uri, bool(options))
        with self._clients_lock:
            if key not in self._clients:
                from pymongo import MongoClient

                self._clients[key] = MongoClient(uri, **options)
            return self._clients[key]

    def _start(self) -> None:
        raise NotImplementedError

    def _add(self, name: str, program: str, *arguments: str) -> Member:
        """Add a member to be launched."""
        options = [*arguments, *(f"--setParameter={key}={_text(value)}" for key, value in self.parameters.items())]
        if program != "mongos":
            options += ["--storageEngine", self.engine]
        member = self.members[name] = Member(name, program, options)
        return member

    def _launch(self, *members: Member) -> None:
        """Start processes concurrently, and return when all are ready."""
        self._begin(*members)
        for member in members:
            member.wait_ready()

    def _begin(self, *members: Member) -> None:
        if self._launcher is None or self._directory is None:
            raise RuntimeError("the deployment is not running")
        for member in members:
            member.start(self._launcher, self._directory)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def at_least_one(**counts: int) -> None:
    """Errors: ValueError when one of the numbers is below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")


def wait_until(condition: Callable[[], object], description: str, seconds: float = WAIT_SECONDS) -> None:
    """Return once the condition holds; a driver's errors mean that it does not yet. Errors: StartFailed."""
    from pymongo.errors import PyMongoError

    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(PyMongoError):
            if condition():
                return
        if time.monotonic() > end:
            raise StartFailed(f"{description}: not within {seconds:.0f} s")
        time.sleep(_LOOK_SECONDS)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
