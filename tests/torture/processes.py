"""Servers as real processes, each on a host of its own; ours or those of a reference.

A server that was killed comes back with its data and address. Its wall clock can be set wrong while it runs, where
there is a C compiler; the reference waits by the wall clock, so its clocks are left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.network import PORT, Host, Network
from tests.torture.proxy import ProxyNetwork
from tests.torture.wire import Lost, NotSent, Refused, ask

START_SECONDS = 60.0
TAIL_LINES = 30
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class NotReady(Exception):
    """A server ended, or did not answer in time; the message has the end of its log."""


@dataclass
class Server:
    """`program`: mongod, configsvr or mongos; `arguments`: all but address and data directory."""

    host: Host
    program: str
    arguments: list[str]
    process: subprocess.Popen[bytes] | None = None
    paused: bool = False
    wanted: bool = True
    skew: float = 0.0

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def address(self) -> str:
        return self.host.address

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    async def ask(self, command: dict[str, Any], *, timeout: float = 5.0) -> dict[str, Any]:
        """A command to the `admin` database unless it says otherwise. NotSent, Lost, Refused."""
        return await ask(self.address, command, timeout=timeout)


@dataclass
class Processes:
    """Everything that runs. `reference`: the path of a real mongod, None for ours."""

    directory: Path
    network: Network | ProxyNetwork
    reference: str | None = None
    servers: dict[str, Server] = field(default_factory=dict)
    _preload: Path | None = None

    def __post_init__(self) -> None:
        if isinstance(self.network, ProxyNetwork):
            self.network.processes = self._running
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is not None and self.reference is None:
            self._preload = self.directory / "skewed_clock.so"
            source = Path(__file__).with_name("skewed_clock.c")
            subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", self._preload, source, "-ldl"], check=True)

    def _running(self) -> dict[int, str]:
        return {each.process.pid: each.name for each in list(self.servers.values()) if each.process is not None}

    @property
    def clocks_can_be_skewed(self) -> bool:
        return self._preload is not None

    def add(self, name: str, program: str, arguments: list[str]) -> Server:
        server = Server(self.network.add(name), program, arguments)
        self.servers[name] = server
        return server

    async def start(self, *servers: Server) -> None:
        """Start them side by side; return when each answers. NotReady."""
        for server in servers:
            self.spawn(server)
        await asyncio.gather(*[self.ready(server) for server in servers])

    def spawn(self, server: Server) -> None:
        assert not server.running, f"{server.name} runs"
        data = self.directory / server.name
        data.mkdir(exist_ok=True)
        # What a server that is killed leaves among the temporary files goes with the run.
        environment = {**os.environ, "TMPDIR": str(self.directory), "PYTHONFAULTHANDLER": "1"}
        if self._preload is not None:
            self._write_skew(server)
            environment |= {"LD_PRELOAD": str(self._preload), "SKEWED_CLOCK": str(self._skew_file(server))}
        command = [
            *server.host.enter,
            *self._program(server),
            "--port",
            str(PORT),
            "--nounixsocket",
            "--bind_ip",
            server.host.bound or server.host.ip,
        ]
        command += [*([] if server.program == "mongos" else ["--dbpath", str(data)]), *server.arguments]
        with self.log_of(server).open("ab") as log:
            server.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        server.paused = False

    async def ready(self, server: Server) -> None:
        end = asyncio.get_running_loop().time() + START_SECONDS
        while True:
            with contextlib.suppress(NotSent, Lost, Refused):
                await server.ask({"hello": 1}, timeout=2)
                return
            if not server.running or asyncio.get_running_loop().time() > end:
                self.abort(server)
                raise NotReady(f"{server.name}:\n{self.tail(server)}")
            await asyncio.sleep(0.05)

    def kill(self, server: Server) -> None:
        """kill -9, at once."""
        if server.process is not None and server.running:
            server.process.kill()
            server.process.wait()

    def abort(self, server: Server) -> None:
        """Have a server that hangs write its stacks into its log, where it can, and end."""
        if server.process is not None and server.running:
            server.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(5)
            self.kill(server)

    def pause(self, server: Server) -> None:
        if server.process is not None and server.running:
            server.process.send_signal(signal.SIGSTOP)
            server.paused = True

    def resume(self, server: Server) -> None:
        if server.process is not None and server.running:
            server.process.send_signal(signal.SIGCONT)
        server.paused = False

    def set_clock(self, server: Server, skew: float) -> None:
        """Its wall clock is wrong by that many seconds from now on."""
        server.skew = skew
        self._write_skew(server)

    def stop(self) -> None:
        """Kill everything; whoever wants to see the data sees what a crash leaves."""
        for server in self.servers.values():
            self.kill(server)

    def log_of(self, server: Server) -> Path:
        return self.directory / f"{server.name}.log"

    def tail(self, server: Server) -> str:
        """The end of its log, without connections that come and go."""
        lines = self.log_of(server).read_bytes()[-200_000:].decode(errors="replace").splitlines()
        return "\n".join(line[:300] for line in [line for line in lines if '"NETWORK"' not in line][-TAIL_LINES:])

    def _program(self, server: Server) -> list[str]:
        if self.reference is None:
            return [sys.executable, "-m", server.program]
        return [self.reference, "--oplogSize", "100", "--wiredTigerCacheSizeGB", "0.25"]

    def _skew_file(self, server: Server) -> Path:
        return self.directory / f"{server.name}.skew"

    def _write_skew(self, server: Server) -> None:
        # In place, since the server has the file mapped.
        path = self._skew_file(server)
        path.touch()
        with path.open("r+b") as file:
            file.write(struct.pack("<q", int(server.skew * 1e9)))


def _end_with_parent() -> None:
    """In the child: where nothing else sees to it, a run that is killed leaves no servers."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
