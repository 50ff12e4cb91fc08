"""The test process's side of `docstore.testing.zygote`: one for each process that starts servers."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docstore

_ANSWER_BYTES = 1 << 12
_ENDED = "the process that starts servers has ended; its error output says why"
_shared: Launcher | None = None
_shared_lock = threading.Lock()


class StartFailed(Exception):
    """A server ended before it was ready, or a set or cluster did not get ready; the message has its output."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process: its id, a descriptor to signal it, readable when it has ended, and the descriptor of its output."""

    pid: int
    descriptor: int
    output: int

    def signal(self, number: signal.Signals) -> None:
        """Errors: ProcessLookupError when it has ended."""
        signal.pidfd_send_signal(self.descriptor, number)

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self.output)


class Launcher:
    """A zygote and the socket to it. Threads may share it."""

    def __init__(self, programs: Sequence[str]) -> None:
        """`programs`: the executables to load in advance."""
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(docstore.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "docstore.testing.zygote",
                    str(theirs.fileno()),
                    str(self.owner),
                    *programs,
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._directory: Path | None = None

    @classmethod
    def shared(cls, programs: Sequence[str]) -> Launcher:
        """Return the launcher of this process. After a fork the child has one of its own."""
        global _shared
        with _shared_lock:
            if _shared is None or _shared.owner != os.getpid() or not _shared.alive:
                _shared = cls(programs)
                atexit.register(_shared.close)
            return _shared

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def directory(self) -> Path:
        """A fresh directory. Errors: StartFailed."""
        with self._lock:
            path = self._root() / str(next(self._numbers))
        path.mkdir()
        return path

    def _root(self) -> Path:
        """Return the directory of all data; the zygote names it first."""
        if self._directory is None:
            answer = self._channel.recv(_ANSWER_BYTES)
            if not answer:
                raise StartFailed(_ENDED)
            self._directory = Path(answer.decode())
        return self._directory

    def start(self, program: str, arguments: Sequence[str], log: Path) -> Started:
        """Start a server and append its log to `log`. Errors: StartFailed."""
        ours, theirs = os.pipe()
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            pid, descriptor = self.fork(program, arguments, theirs, errors)
        except StartFailed:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
            os.close(errors)
        return Started(pid, descriptor, ours)

    def fork(
        self,
        program: str,
        arguments: Sequence[str],
        output: int,
        errors: int,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, int]:
        """Start a server that writes to these descriptors. Return its process id, and a descriptor of the process,
        the caller's to close.

        `environment`: changes to the zygote's. Errors: StartFailed.
        """
        request = {"program": program, "arguments": list(arguments), "environment": dict(environment or {})}
        try:
            with self._lock:
                self._root()
                socket.send_fds(self._channel, [json.dumps(request).encode()], [output, errors])
                answer, descriptors, _, _ = socket.recv_fds(self._channel, _ANSWER_BYTES, 1)
        except ConnectionError:
            answer, descriptors = b"", []
        if not answer:
            raise StartFailed(_ENDED)
        return int(answer), descriptors[0]

    def close(self) -> None:
        """End the zygote, and with it every server and all data."""
        if self.owner != os.getpid():
            return
        self._channel.close()
        self._process.wait()
        if self._directory is not None:
            # The zygote does it, if it was not killed itself.
            shutil.rmtree(self._directory, ignore_errors=True)
