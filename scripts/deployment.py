"""A whole cluster on loopback: data nodes in replica sets, config servers, routers, each a process of its own.

What runs is described by `deployment.json` in the deployment's directory, written after every start and stop, so that
another process can look at it or take it down. Every process gets a free port from the system (`--port 0`) and names it
in its ready line; a restarted process keeps the port it had, since the others know it by that.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

READY = re.compile(r"^\w+ ready host=(\S+) port=(\d+) pid=(\d+)", re.MULTILINE)
START_SECONDS = 30.0
STOP_SECONDS = 20.0


class StartFailed(Exception):
    """A process ended, or said nothing, before it was ready; the message holds what it printed."""


@dataclass
class Member:
    """One process: `program` is an executable's package, `arguments` all but --port and --dbpath."""

    name: str
    program: str
    arguments: list[str]
    port: int = 0
    pid: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the process is there; one that has ended but was not waited for is not."""
        if not self.pid:
            return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


@dataclass
class Deployment:
    """The members of a cluster and the directory that holds their data, output and `deployment.json`."""

    directory: Path
    members: dict[str, Member] = field(default_factory=dict)

    @property
    def state_file(self) -> Path:
        return self.directory / "deployment.json"

    @classmethod
    def load(cls, directory: Path) -> Deployment:
        """What `save` wrote; an empty deployment where nothing was written."""
        deployment = cls(directory)
        if deployment.state_file.exists():
            rows = json.loads(deployment.state_file.read_text())
            deployment.members = {row["name"]: Member(**row) for row in rows}
        return deployment

    def save(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        part = self.state_file.with_suffix(".part")
        part.write_text(json.dumps([asdict(member) for member in self.members.values()], indent=1))
        part.replace(self.state_file)

    def start(self, *members: Member) -> None:
        """Start processes side by side and wait until each is ready."""
        offsets = {member.name: self._spawn(member) for member in members}
        for member in members:
            self._wait_ready(member, offsets[member.name])
        self.save()

    def restart(self, name: str) -> None:
        """Start a member again on the port and data that it had."""
        self.start(self.members[name])

    def kill(self, name: str) -> None:
        """kill -9, and wait until the process is gone."""
        self._signal(self.members[name], signal.SIGKILL)

    def stop(self) -> None:
        """Stop every process, routers first, data nodes last; what does not stop when asked is killed."""
        for program in ("mongos", "mongod", "configsvr"):
            running = [member for member in self.members.values() if member.program == program and member.running]
            for member in running:
                os.kill(member.pid, signal.SIGTERM)
            for member in running:
                if not self._gone(member, STOP_SECONDS):
                    self._signal(member, signal.SIGKILL)
        self.save()

    def output_of(self, member: Member) -> Path:
        return self.directory / f"{member.name}.log"

    def _spawn(self, member: Member) -> int:
        self.directory.mkdir(parents=True, exist_ok=True)
        output = self.output_of(member)
        offset = output.stat().st_size if output.exists() else 0
        arguments = ["--port", str(member.port), "--nounixsocket", *member.arguments]
        if member.program != "mongos":
            dbpath = self.directory / member.name
            dbpath.mkdir(exist_ok=True)
            arguments += ["--dbpath", str(dbpath)]
        # What a process that is killed leaves among the temporary files goes with the deployment.
        environment = {"TMPDIR": str(self.directory.absolute())}
        with output.open("ab") as sink:
            member.pid = self._run(member.program, arguments, sink, environment)
        self.members[member.name] = member
        self.save()
        return offset

    def _run(self, program: str, arguments: list[str], sink: IO[bytes], environment: dict[str, str]) -> int:
        """Begin a process that outlives this one: its id. `environment`: what is to be other than here."""
        return subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environment},
        ).pid

    def _wait_ready(self, member: Member, offset: int) -> None:
        end = time.monotonic() + START_SECONDS
        output = self.output_of(member)
        while True:
            text = output.read_bytes()[offset:].decode(errors="replace")
            if found := READY.search(text):
                member.port = int(found[2])
                return
            if not member.running or time.monotonic() > end:
                raise StartFailed(f"{member.name} did not become ready:\n{text[-2000:]}")
            time.sleep(0.02)

    def _signal(self, member: Member, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member.pid, number)
        if not self._gone(member, STOP_SECONDS):
            raise TimeoutError(f"{member.name} (pid {member.pid}) does not end")

    def _gone(self, member: Member, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while member.running:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True


def unused_port() -> int:
    """A port of this machine on which nobody listens now, for a server that cannot choose one by itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def places_of(directory: Path, port: int) -> list[str]:
    """What tells a mongod, ours or a real one, where its data is and to listen there on loopback alone."""
    return ["--dbpath", str(directory), "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"]


def replica_set(name: str, members: int, arguments: list[str]) -> list[Member]:
    """The data nodes of one shard."""
    return [
        Member(f"{name}-{number}", "mongod", ["--shardsvr", "--replSet", name, *arguments]) for number in range(members)
    ]


@contextlib.contextmanager
def stopped_at_end(deployment: Deployment) -> Iterator[Deployment]:
    """Leaves nothing running, however the body ends."""
    try:
        yield deployment
    finally:
        deployment.stop()
