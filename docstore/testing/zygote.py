"""The process that servers for tests are forked from: `python -m docstore.testing.zygote SOCKET PARENT PROGRAMS`.

It imports the executables once; a server is a fork of it that continues like `python -m mongod`. It has one thread
and opens nothing that a fork must not share. Invariants, for every end of the test run:

- no server outlives the zygote: the kernel kills each when its parent ends;
- the zygote does not outlive the test process: it ends when the socket closes, and when that process ends while
  others still hold the socket;
- the directory of all data is removed with it. The next zygote removes the directories of killed ones: a directory is
  in use while a process holds the lock on the file in it.

A request is a JSON object: `program`, `arguments`, and `environment`, the changes to the zygote's. The descriptors of
the server's standard output and error come with it. The answer is its process id, with a descriptor of the process.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

DIRECTORY_VARIABLE = "DOCSTORE_TESTING_DIR"
"""The environment variable that says where data is to be, instead of in memory or among the temporary files."""

_REQUEST_BYTES = 1 << 16

_PREFIX = "docstore-testing-"
_LOCK = "lock"
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 << 30
"""The free memory required for data in memory; containers often have 64 MB."""

_PR_SET_PDEATHSIG = 1
_STARTED_LATER = ("uvloop", "rocksdict", "concurrent.futures.thread", "asyncio.subprocess")
"""Modules that a server imports at its start, if installed."""


class Zygote:
    """Forks servers on request; see the module."""

    def __init__(self, channel: socket.socket, parent: int) -> None:
        self._pid = os.getpid()
        self._channel = channel
        self._parent = os.pidfd_open(parent)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._programs: dict[str, Callable[..., Any]] = {}
        self._children: dict[int, int] = {}
        """The process id of each server, by the descriptor of the process."""

    def load(self, names: Iterable[str]) -> None:
        """Import these executables. They are in layers above this package, which knows them by name only."""
        gc.disable()
        for name in names:
            if name not in self._programs:
                self._programs[name] = importlib.import_module(f"{name}.__main__").main
        for module in _STARTED_LATER:
            if importlib.util.find_spec(module) is not None:
                importlib.import_module(module)
        # The current objects are shared by all servers: a garbage collection would only copy them.
        gc.freeze()

    def serve(self) -> None:
        """Answer requests until the test process is gone."""
        waiting = select.poll()
        requests = self._channel.fileno()
        for descriptor in (requests, self._parent):
            waiting.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in waiting.poll():
                if descriptor in self._children:
                    waiting.unregister(descriptor)
                    self._reap(descriptor)
                elif descriptor == self._parent or not self._answer(waiting):
                    return

    def end(self) -> None:
        """Kill every running server."""
        for descriptor in list(self._children):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            self._reap(descriptor)

    def _reap(self, descriptor: int) -> None:
        os.waitpid(self._children.pop(descriptor), 0)
        os.close(descriptor)

    def _answer(self, waiting: select.poll) -> bool:
        """Start the requested server; False when the socket is closed."""
        request, descriptors, _, _ = socket.recv_fds(self._channel, _REQUEST_BYTES, 2)
        if not request:
            return False
        start_request = json.loads(request)
        self.load([start_request["program"]])
        child = os.fork()
        if not child:
            self._become(start_request, *descriptors)
        for stream in descriptors:
            os.close(stream)
        descriptor = os.pidfd_open(child)
        self._children[descriptor] = child
        waiting.register(descriptor, select.POLLIN)
        socket.send_fds(self._channel, [str(child).encode()], [descriptor])
        return True

    def _become(self, request: dict[str, Any], output: int, errors: int) -> NoReturn:
        """Continue as the server, in the child."""
        program, arguments = request["program"], request["arguments"]
        code = 1
        try:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._pid:
                os._exit(code)
            os.setsid()
            os.dup2(output, 1)
            os.dup2(errors, 2)
            for descriptor in (output, errors, self._parent, *self._children):
                os.close(descriptor)
            self._channel.close()
            os.environ.update(request["environment"])
            tempfile.tempdir = None
            gc.enable()
            sys.argv = [program, *arguments]
            self._programs[program](args=arguments, prog_name=program)
        except SystemExit as error:
            code = exit_code(error)
        except BaseException:
            traceback.print_exc()
        finally:
            # Never return into the zygote's own frames.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def exit_code(error: SystemExit) -> int:
    """Return the exit code that the interpreter would use; print a text to standard error."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


class DataDirectory:
    """The directory that holds the data of all servers, locked as long as the zygote lives."""

    def __init__(self) -> None:
        base = choose_base()
        remove_left(base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        # The file appears with its lock: a file without a holder is abandoned.
        unnamed = self.path / f"{_LOCK}.new"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def choose_base() -> Path:
    """Return the parent of the data directory: from the environment, else in memory if there is room, else for
    temporary files.
    """
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return Path(named)
    if os.access(_MEMORY, os.W_OK):
        status = os.statvfs(_MEMORY)
        if status.f_bavail * status.f_frsize >= _ROOM_BYTES:
            return _MEMORY
    return Path(tempfile.gettempdir())


def remove_left(base: Path) -> None:
    """Remove the directories of killed zygotes."""
    for lock in base.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # in use, or gone
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


def main() -> None:
    """Serve the test process that has started this one."""
    number, parent, *programs = sys.argv[1:]
    channel = socket.socket(fileno=int(number))
    zygote = Zygote(channel, int(parent))
    directory = DataDirectory()
    # Servers' temporary files are removed with their data.
    os.environ["TMPDIR"] = str(directory.path)
    tempfile.tempdir = None
    try:
        channel.sendall(str(directory.path).encode())
        zygote.load(programs)
        zygote.serve()
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        zygote.end()
        directory.remove()


if __name__ == "__main__":
    main()
