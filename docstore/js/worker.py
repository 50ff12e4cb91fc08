"""The worker process: `python -m docstore.js.worker FD SPILL` runs the jobs that arrive on the inherited socket FD.

* One job at a time, each in a fresh isolate; nothing of a job survives it.
* RLIMIT_DATA bounds what the isolate's heap limit does not see (array buffers); an allocation beyond it fails in
  JavaScript.
* The process ends when the other end of the socket is closed, in the middle of a script too: a thread watches for it.
* It has given up files, sockets and other processes before it sees a script (`docstore.js.confinement`).
* The process is left by `os._exit`: V8's threads must not be waited for.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import bson

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.js.confinement import confine
from docstore.js.engine import initialize
from docstore.js.frames import CHUNK, HEADER, Kind, frame, receive_exactly
from docstore.js.job import Counts, Limits, MapReduceJob
from docstore.js.session import Operation, Session
from docstore.js.spill import SpillDirectory
from docstore.query.value.collation import parse_collation
from docstore.query.value.ordering import Ordering


class ServerGone(Exception):
    """The other end of the socket was closed."""


class Worker:
    """The blocking loop of one worker process."""

    def __init__(self, channel: socket.socket, spill: Path) -> None:
        self._channel = channel
        self._spill = spill
        self._header = bytearray(HEADER.size)

    def serve(self) -> None:
        """Run jobs until the server closes the socket."""
        while True:
            kind, length = self._read_header()
            assert kind is Kind.JOB, f"expected a job, got {kind.name}"
            self._run_job(self._read(length))

    def _run_job(self, description: bytes) -> None:
        self._ended = False
        fields = document_to_python(description)
        try:
            counts = self._evaluate(fields) if "functions" not in fields else self._run(fields)
        except CommandError as error:
            failure = {"code": error.code, "message": error.message, "peak": _peak_memory()}
            self._channel.sendall(frame(Kind.FAILED, bson.encode(failure)))
            self._drop_input()
            return
        numbers = {"input": counts.input, "emit": counts.emit, "reduce": counts.reduce, "output": counts.output}
        self._channel.sendall(frame(Kind.DONE, bson.encode(numbers | {"peak": _peak_memory()})))

    def _evaluate(self, fields: dict[str, Any]) -> Counts:
        """Answer calls until the server has no more."""
        session = _session(_limits(fields))
        try:
            while True:
                kind, length = self._read_header()
                if kind is Kind.END:
                    self._ended = True
                    return session.counts()
                assert kind is Kind.CALLS, f"expected calls, got {kind.name}"
                if not receive_exactly(self._channel, session.input(length)):
                    raise ServerGone
                answer = session.evaluate(length)
                self._send_printed(session)
                self._channel.sendall(HEADER.pack(len(answer), Kind.ANSWER))
                self._channel.sendall(answer)
        finally:
            session.close()

    def _run(self, fields: dict[str, Any]) -> Counts:
        job, merge, final = _parse(fields)
        session = _session(job.limits)
        try:
            session.start(job, final=final)
            with SpillDirectory(self._spill) as runs:
                if merge:
                    self._merge(session)
                else:
                    self._map(session, runs)
                    self._finish(session, runs, job.ordering, final=final)
            return session.counts()
        finally:
            self._send_printed(session)
            session.close()

    def _map(self, session: Session, runs: SpillDirectory) -> None:
        working = False
        for length in self._batches(session):
            if working:
                self._complete(session, runs)
            session.begin(Operation.MAP, length)
            working = True
        if working:
            self._complete(session, runs)

    @staticmethod
    def _complete(session: Session, runs: SpillDirectory) -> None:
        """Wait until the batch is mapped, spilling as often as it takes."""
        while session.paused():
            runs.add(session.drain(Operation.DRAIN_RUN))
            session.resume()

    def _finish(self, session: Session, runs: SpillDirectory, ordering: Ordering, *, final: bool) -> None:
        if not len(runs):
            self._send_results(session.drain(Operation.DRAIN_FINAL, final=final))
            return
        runs.add(session.drain(Operation.DRAIN_RUN))
        session.start_merge(final=final)
        for chunk in _joined(runs.merged(ordering)):
            session.input(len(chunk))[:] = chunk
            session.begin(Operation.MERGE, len(chunk))
            session.settle()
            self._send_results((session.output(),))
        self._send_results((session.end_merge(),))

    def _merge(self, session: Session) -> None:
        working = False
        for length in self._batches(session):
            if working:
                session.settle()
                self._send_results((session.output(),))
            session.begin(Operation.MERGE, length)
            working = True
        if working:
            session.settle()
            self._send_results((session.output(),))
        self._send_results((session.end_merge(),))

    def _batches(self, session: Session) -> Iterator[int]:
        """Receive each batch into the session's input and give its length."""
        while True:
            kind, length = self._read_header()
            if kind is Kind.END:
                self._ended = True
                return
            assert kind is Kind.DOCUMENTS, f"expected documents, got {kind.name}"
            if not receive_exactly(self._channel, session.input(length)):
                raise ServerGone
            yield length

    def _drop_input(self) -> None:
        while not self._ended:
            kind, length = self._read_header()
            self._read(length)
            self._ended = kind is Kind.END

    def _send_results(self, chunks: Iterable[memoryview]) -> None:
        for chunk in chunks:
            if len(chunk):
                self._channel.sendall(HEADER.pack(len(chunk), Kind.RESULTS))
                self._channel.sendall(chunk)

    def _send_printed(self, session: Session) -> None:
        if session.usable and (text := session.take_printed()):
            self._channel.sendall(frame(Kind.PRINTED, text.encode()))

    def _read_header(self) -> tuple[Kind, int]:
        if not receive_exactly(self._channel, memoryview(self._header)):
            raise ServerGone
        length, kind = HEADER.unpack(self._header)
        return Kind(kind), length

    def _read(self, length: int) -> bytes:
        payload = bytearray(length)
        if not receive_exactly(self._channel, memoryview(payload)):
            raise ServerGone
        return bytes(payload)


def _limits(fields: dict[str, Any]) -> Limits:
    return Limits(heap=fields["heap"], data=fields["data"], spill=fields["spill"])


def _session(limits: Limits) -> Session:
    resource.setrlimit(resource.RLIMIT_DATA, (limits.data, resource.RLIM_INFINITY))
    return Session(limits)


def _parse(fields: dict[str, Any]) -> tuple[MapReduceJob, bool, bool]:
    """The job, whether its input is partial results, and whether to finalize."""
    functions = {name: (part["type"], bytes(part["value"])) for name, part in fields["functions"].items()}
    job = MapReduceJob(
        **functions,
        scope=fields.get("scope"),
        stored=fields.get("stored"),
        collation=parse_collation(fields["collation"]) if "collation" in fields else None,
        limits=_limits(fields),
    )
    return job, fields["merge"], fields["final"]


def _joined(documents: Iterator[bytes]) -> Iterator[bytes]:
    """Documents put end to end in pieces of about CHUNK bytes."""
    pieces: list[bytes] = []
    size = 0
    for document in documents:
        if size and size + len(document) > CHUNK:
            yield b"".join(pieces)
            pieces, size = [], 0
        pieces.append(document)
        size += len(document)
    if pieces:
        yield b"".join(pieces)


def _peak_memory() -> int:
    """Return the peak memory of this process in bytes; `getrusage` would include the server's memory at the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status[status.index("VmHWM:") :].split(maxsplit=2)[1]) * 1024


def _exit_when_closed(descriptor: int) -> None:
    """End the process as soon as the server has closed its end, even while the isolate is busy."""
    poller = select.poll()
    poller.register(descriptor, select.POLLRDHUP | select.POLLHUP)
    poller.poll()
    os._exit(0)


def main() -> None:
    """Entry point of the worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the server, which closes the socket
    channel, spill = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    confine(spill)
    threading.Thread(target=_exit_when_closed, args=(channel.fileno(),), daemon=True).start()
    initialize()
    try:
        Worker(channel, spill).serve()
    except (ServerGone, ConnectionError):
        os._exit(0)


if __name__ == "__main__":
    main()
