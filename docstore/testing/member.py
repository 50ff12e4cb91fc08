"""One server of a deployment: its process, its address, its log."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from docstore.testing.launcher import Launcher, Started, StartFailed

LOOPBACK = "127.0.0.1"
_READY = re.compile(rb"^\w+ ready host=\S+ port=(\d+) pid=\d+$", re.MULTILINE)
_START_SECONDS = 60.0
_END_SECONDS = 30.0
_SHOWN = 3000
"""The length of the end of a log in the message of a failed start."""


class Member:
    """A server process. It gets a free port from the system at its first start, and keeps that from then on."""

    def __init__(self, name: str, program: str, arguments: Sequence[str]) -> None:
        """`program`: the executable's name. `arguments`: all but --port and --dbpath."""
        self.name = name
        self.program = program
        self.port = 0
        self._arguments = tuple(arguments)
        self._log: Path | None = None
        self._process: Started | None = None
        self._said = b""
        self.paused = False
        """True after `pause`, until `resume`."""

    def __repr__(self) -> str:
        return f"<{self.program} {self.name} {self.address} {'running' if self.running else 'down'}>"

    @property
    def address(self) -> str:
        """ "host:port" """
        return f"{LOOPBACK}:{self.port}"

    @property
    def uri(self) -> str:
        """For a driver that is to talk to this server alone."""
        return f"mongodb://{self.address}/?directConnection=true"

    @property
    def pid(self) -> int | None:
        """The id of its process; None while it does not run."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """True if the process exists, paused or not."""
        return self._process is not None and not _readable(self._process.descriptor, 0)

    @property
    def answers(self) -> bool:
        """True if it runs and is not paused."""
        return self.running and not self.paused

    def log(self) -> str:
        """Return its log and error output, over all its starts."""
        return self._log.read_text(errors="replace") if self._log is not None and self._log.exists() else ""

    def start(self, launcher: Launcher, directory: Path) -> None:
        """Begin to start; `wait_ready` waits for the end. `directory`: of the deployment."""
        if self.running:
            raise RuntimeError(f"{self.name} is running")
        self.forget()
        self._log = directory / f"{self.name}.log"
        log = ("--logpath", str(self._log), "--logappend")
        arguments = ["--port", str(self.port), "--nounixsocket", *log, *self._arguments]
        if self.program != "mongos":
            data = directory / self.name
            data.mkdir(exist_ok=True)
            arguments += ["--dbpath", str(data)]
        self._said = b""
        self._process = launcher.start(self.program, arguments, self._log)

    def wait_ready(self) -> None:
        """Return when the port answers. Errors: StartFailed with the server's output."""
        assert self._process is not None
        end = time.monotonic() + _START_SECONDS
        while not (match := _READY.search(self._said)):
            output = b""
            if _readable(self._process.output, end - time.monotonic()):
                output = os.read(self._process.output, 1 << 16)
            if not output:
                text = self._said.decode(errors="replace") + self.log()
                raise StartFailed(f"{self.name} did not become ready:\n{text[-_SHOWN:]}")
            self._said += output
        self.port = int(match[1])

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        self.begin_kill()
        self.wait_end()

    def begin_kill(self) -> None:
        """kill -9, without waiting."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end in good order, and wait until the process is gone."""
        self.resume()
        self._send(signal.SIGTERM)
        self.wait_end()

    def wait_end(self) -> None:
        """Return when the process is gone. Errors: TimeoutError."""
        if self._process is not None and not _readable(self._process.descriptor, _END_SECONDS):
            raise TimeoutError(f"{self.name} (pid {self._process.pid}) does not end")
        self.paused = False

    def pause(self) -> None:
        """Send SIGSTOP. A member that is down stays down."""
        self.paused = self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT. A member that is down stays down."""
        self._send(signal.SIGCONT)
        self.paused = False

    def _send(self, number: signal.Signals) -> bool:
        """Send a signal; return whether the process exists."""
        if self._process is None or not self.running:
            return False
        with contextlib.suppress(ProcessLookupError):
            self._process.signal(number)
        return True

    def forget(self) -> None:
        """Close the descriptors of a process that has ended."""
        if self._process is not None:
            self._process.close()
            self._process = None


def _readable(descriptor: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(max(0.0, seconds) * 1000))
