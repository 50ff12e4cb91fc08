"""The lifecycle of a server process: log, fork, pid file, event loop, signals, the ready line, the exit code.

Every executable starts with `run`. Its order: log, fork, pid file, loop, `main`. `main(process)` builds the parts,
calls `process.ready(host, port)` when the port answers, awaits `process.stopped()`, and shuts the parts down.

Exit codes: 0 after an orderly stop; that of a `StartError` (65 after a repair that lost data, 100 if the data cannot be
opened); 14 for a broken invariant; 1 for any other failure. With `--fork` the parent prints the child's messages up to
its ready line, and exits with the child's code if none comes. The child closes the caller's standard input and output,
as do processes that it starts, so that a script that reads them to the end continues when the parent exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import logging
import os
import platform
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import docstore
from docstore import log
from docstore.bson.compilation import kernel_form
from docstore.log import component
from docstore.net.access.file_limits import raise_file_limit
from docstore.net.memory.allocator import bound_free_memory
from docstore.net.memory.garbage import GarbageCollection
from docstore.options import Options

LOG = component("CONTROL")
BROKEN_INVARIANT = 14
CANNOT_LISTEN = 48
DATA_LOST = 65
CANNOT_OPEN_DATA = 100
_READY, _NOTE, _FAILURE = "+", " ", "!"


class Voice:
    """Messages of the process to its caller until it is ready, by standard output."""

    def ready(self, line: str) -> None:
        print(line, flush=True)

    def say(self, line: str) -> None:
        print(line, flush=True)

    def fail(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class ForkedVoice(Voice):
    """Messages of a forked child, by a pipe to its parent, which prints each line as its first byte tells."""

    def __init__(self, pipe: int) -> None:
        self._pipe: int | None = pipe

    def ready(self, line: str) -> None:
        self._send(_READY, line)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def say(self, line: str) -> None:
        self._send(_NOTE, line)

    def fail(self, line: str) -> None:
        self._send(_FAILURE, line)

    def _send(self, kind: str, line: str) -> None:
        """Send a line; a parent that has exited is ignored."""
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._pipe, f"{kind}{line}\n".encode())


class StartError(Exception):
    """The process cannot start; the message is one sentence for the user."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def cannot_listen(addresses: Sequence[str], port: int, error: OSError) -> StartError:
    """Return the error of a process that cannot bind its port, with a hint for the user."""
    advice = {
        errno.EADDRINUSE: "; another server is running there: stop it, or name another port with --port",
        errno.EADDRNOTAVAIL: "; an address in --bind_ip is none of this machine's",
        errno.EACCES: "; ports below 1024 are for privileged users: name another one with --port",
    }.get(error.errno or 0, "")
    return StartError(f"cannot listen on {','.join(addresses)} port {port}: {error.strerror}{advice}", CANNOT_LISTEN)


class Process:
    """The handle of `main` on its own process."""

    def __init__(self, name: str, voice: Voice) -> None:
        self.name = name
        self._voice = voice
        self.rotations: list[Callable[[], object]] = [log.rotate]
        """Called to rotate files. Errors: OSError."""
        self._stop = asyncio.Event()
        self._garbage = GarbageCollection(asyncio.get_running_loop())
        self._starting: asyncio.Task[Any] | None = asyncio.current_task()

    def ready(self, host: str, port: int) -> None:
        """Announce that the process serves: on standard output (with --fork: the parent's) and in the log."""
        self._garbage.start()
        line = f"{self.name} ready host={host} port={port} pid={os.getpid()}"
        LOG.info("Waiting for connections", line=line, host=host, port=port, pid=os.getpid())
        self._starting = None
        self._voice.ready(line)

    def say(self, line: str) -> None:
        """Print a message for the caller."""
        self._voice.say(f"{self.name}: {line}")

    def waiting(self, for_what: str) -> None:
        """Announce, like `ready`, the condition the process waits for before it can serve."""
        LOG.info("Waiting", reason=for_what)
        self._voice.say(f"{self.name}: waiting: {for_what}")

    def stop(self, reason: str) -> None:
        """Request an orderly stop. A process that is not ready yet is cancelled."""
        if not self._stop.is_set():
            self._garbage.stop()
            LOG.info("Stopping", reason=reason)
            self._stop.set()
            if self._starting is not None:
                self._starting.cancel()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    async def stopped(self) -> None:
        """Return when a stop has been requested."""
        await self._stop.wait()


Main = Callable[[Process], Awaitable[None]]


def run(name: str, main: Main, options: Options) -> NoReturn:
    """Run `main` as a process of that name and exit with its exit code."""
    # All its files are accessible to the owner only.
    os.umask(0o077)
    pid_file = options.process.pid_file
    try:
        logging_options = options.logging
        log.configure(
            logging_options.path,
            append=logging_options.append,
            verbosity=logging_options.verbosity,
            quiet=logging_options.quiet,
            rename=logging_options.rotate == "rename",
        )
        log.set_redaction(logging_options.redact)
    except OSError as error:
        print(f"{name}: cannot write the log {options.logging.path}: {error.strerror}", file=sys.stderr)
        sys.exit(1)
    voice = _fork(name) if options.process.fork else Voice()
    for notice in options.notices:
        LOG.startup_warning(notice)
    raise_file_limit(options.network.max_connections)
    bound_free_memory()
    try:
        if pid_file is not None:
            _write_pid_file(pid_file)
        code = _run_loop(name, main, voice)
    except StartError as error:
        code = error.exit_code
        LOG.fatal("Cannot start", reason=str(error))
        voice.fail(f"{name}: {error}")
    finally:
        if pid_file is not None:
            pid_file.unlink(missing_ok=True)
    sys.exit(code)


def _write_pid_file(path: Path) -> None:
    try:
        path.write_text(f"{os.getpid()}\n")
    except OSError as error:
        raise StartError(f"cannot write the pid file {path}: {error.strerror}") from None


def _fork(name: str) -> Voice:
    """Continue in a child with its own session; the parent exits when the child is ready or ends."""
    print("about to fork child process, waiting until server is ready for connections.", flush=True)
    receiver, sender = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(sender)
        _await_child(name, child, receiver)
    os.close(receiver)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    return ForkedVoice(sender)


def _await_child(name: str, child: int, receiver: int) -> NoReturn:
    with os.fdopen(receiver) as pipe:
        for line in pipe:
            kind, text = line[0], line[1:].rstrip("\n")
            if kind == _READY:
                print(f"forked process: {child}\n{text}", flush=True)
                os._exit(0)
            print(text, file=sys.stderr if kind == _FAILURE else sys.stdout, flush=True)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    print(f"{name}: the child process failed, exited with code {code}", file=sys.stderr, flush=True)
    os._exit(code if code > 0 else 1)


def _run_loop(name: str, main: Main, voice: Voice) -> int:
    factory = None
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_supervise(name, main, voice))


async def _supervise(name: str, main: Main, voice: Voice) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_handle_exception)
    process = Process(name, voice)
    _handle_signals(loop, process)
    build = {"version": docstore.__version__, "python": platform.python_version(), "kernel": kernel_form()}
    LOG.info("Build Info", buildInfo=build)
    LOG.info("Process started", name=name, pid=os.getpid(), loop=type(loop).__module__)
    try:
        await main(process)
    except asyncio.CancelledError:
        if not process.stopping:
            raise
        LOG.info("Stopped before it was ready")
        return 0
    except StartError:
        raise
    except AssertionError as error:
        _die(error)
    except Exception as error:
        LOG.fatal("Process failed", error=repr(error), exc_info=error)
        voice.fail(f"{name}: {type(error).__name__}: {error}")
        return 1
    LOG.info("Process ended")
    return 0


def _handle_signals(loop: asyncio.AbstractEventLoop, process: Process) -> None:
    def stop_on(number: signal.Signals) -> None:
        process.stop(f"got signal {number.name}")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_on, number)
    loop.add_signal_handler(signal.SIGUSR1, _rotate, process)


def _rotate(process: Process) -> None:
    for rotate in process.rotations:
        try:
            rotate()
        except OSError as error:
            LOG.error("A log was not rotated", reason=error.strerror)


def _handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, AssertionError):
        _die(error)
    LOG.error("Unhandled error in the event loop", message=context.get("message"), error=repr(error), exc_info=error)


def _die(error: AssertionError) -> NoReturn:
    """Exit on a broken invariant, without an orderly shutdown: continuing could do harm."""
    LOG.fatal("Invariant broken, stopping at once", error=repr(error), exc_info=error)
    logging.shutdown()
    os._exit(BROKEN_INVARIANT)
