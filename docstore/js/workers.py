"""A pool of worker processes that run users' JavaScript; `docstore.js.job` has the values, `docstore.js.frames` the
frames.

User code never runs in the server's own process: V8 ends the process it lives in when memory is exhausted, so that
process must be expendable. `Workers` keeps a few of them warm; each operation gets a fresh isolate in one
of them.

* A refusal by the user's code (syntax error, throw, time limit, memory limit) is a `CommandError`; the server is
  unharmed.
* A worker whose operation was cancelled, ran out of time or broke the protocol is killed, never reused.
* Reading results and sending documents go on at the same time, so neither side can block the other for good.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import bson

import docstore
from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.js.frames import HEADER, Kind, chunks, frame, split_documents
from docstore.js.job import MEBIBYTE, Counts, Limits, MapReduceJob
from docstore.js.merge import merge_streams
from docstore.js.shares import FairShares

SOCKET_BUFFER = 1 << 20
SPILL_PREFIX = "worker-"
CALL_SECONDS = 60.0
"""The time limit of a filter's or expression's script for one set of documents."""
RETIRE_BYTES = 192 * MEBIBYTE
"""A worker that ever held this much is replaced: V8 and the allocator give little of it back."""


Sink = Callable[[list[bytes]], Awaitable[None]]
"""Takes results, a list of raw documents at a time; the worker waits for it."""


class WorkerDied(Exception):
    """A worker process ended in the middle of an operation."""


class Workers:
    """The pool of worker processes. Runs usually at most `size` operations at once; others wait
    (`docstore.js.shares`).

    `spill` is a directory for sorted runs, used by no other pool. `on_print` gets the output of user code, several
    lines at a time. `heap` returns the maximal bytes of one operation's objects.
    """

    def __init__(
        self,
        size: int,
        *,
        spill: Path,
        on_print: Callable[[str], None] | None = None,
        heap: Callable[[], int] = lambda: Limits.heap,
        call_seconds: Callable[[], float] = lambda: CALL_SECONDS,
    ) -> None:
        """`call_seconds`: how long the answer to one exchange of a lease may take."""
        self._spill = spill
        self.call_seconds = call_seconds
        self._heap = heap
        self.on_print = on_print
        self._shares = FairShares(size)
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._closed = False

    async def start(self) -> None:
        """Start one worker process so that the first operation finds it warm; others are started on demand."""
        self._spill.mkdir(parents=True, exist_ok=True)
        for directory in self._spill.glob(f"{SPILL_PREFIX}*"):  # by a server that was killed
            shutil.rmtree(directory)
        self._idle.append(await _Process.spawn(self._spill))

    async def close(self) -> None:
        """Kill every worker and wait for it. Operations still running fail with InterruptedAtShutdown."""
        self._closed = True
        for process in self._busy:
            process.kill()
        while self._idle:
            await self._idle.pop().reap()

    async def map_reduce(
        self, job: MapReduceJob, batches: AsyncIterator[list[bytes]], sink: Sink, *, partial: bool = False
    ) -> Counts:
        """Map every document of `batches` (lists of raw documents), reduce, finalize unless `partial`."""
        description = _describe(job, job.limits.with_heap(self._heap()), merge=False, final=not partial)
        return await self._operate(description, batches, sink, job.limits)

    async def merge_reduce(self, job: MapReduceJob, runs: Sequence[AsyncIterator[list[bytes]]], sink: Sink) -> Counts:
        """Merge partial results, each sorted by `_id`: reduce once per key with several values, finalize every key
        once.
        """
        batches = merge_streams(runs, job.ordering)
        description = _describe(job, job.limits.with_heap(self._heap()), merge=True, final=True)
        return await self._operate(description, batches, sink, job.limits)

    @asynccontextmanager
    async def lease(self, limits: Limits) -> AsyncIterator[Lease]:
        """A worker that answers calls (`docstore.js.evaluation`) for as long as the context lasts."""
        limits = limits.with_heap(self._heap())
        fields = {"heap": limits.heap, "data": limits.data, "spill": limits.spill}
        async with self._worker(limits.owner) as process:
            lease = Lease(process, self)
            try:
                await process.open(frame(Kind.JOB, bson.encode(fields)))
            except WorkerDied as error:
                raise self.died() from error
            try:
                yield lease
            finally:
                await lease.end()

    def died(self) -> CommandError:
        """The refusal of an operation whose worker has ended."""
        if self._closed:
            return CommandError(Code.InterruptedAtShutdown, "the server is shutting down")
        return CommandError(Code.JSInterpreterFailure, "JavaScript worker process ended; out of memory?")

    async def _operate(
        self, description: bytes, batches: AsyncIterator[list[bytes]], sink: Sink, limits: Limits
    ) -> Counts:
        try:
            async with asyncio.timeout(limits.seconds), self._worker(limits.owner) as process:
                return await process.run(description, batches, sink, self.on_print)
        except TimeoutError as error:
            raise _interrupted() from error
        except WorkerDied as error:
            raise self.died() from error

    @asynccontextmanager
    async def _worker(self, owner: Hashable) -> AsyncIterator[_Process]:
        async with self._shares.slot(owner):
            if self._closed:
                raise CommandError(Code.InterruptedAtShutdown, "the server is shutting down")
            process = await self._take()
            self._busy.add(process)
            try:
                yield process
            finally:
                self._busy.discard(process)
                if process.ready and not self._closed:
                    self._idle.append(process)
                else:
                    await process.reap()

    async def _take(self) -> _Process:
        """Return a worker that waits for a job; idle ones that have ended are forgotten."""
        while self._idle:
            process = self._idle.pop()
            if process.has_ended():
                await process.reap()
            else:
                return process
        return await _Process.spawn(self._spill)


def _interrupted() -> CommandError:
    return CommandError(Code.Interrupted, "JavaScript execution interrupted")


class Lease:
    """A worker for one request. After a failure it answers nothing more."""

    def __init__(self, process: _Process, workers: Workers) -> None:
        self._process = process
        self._workers = workers
        self._answering = False

    async def exchange(self, calls: bytes) -> bytes:
        """The answer to calls. Errors: JSInterpreterFailure when the script used up its memory, Interrupted when its
        time was up.
        """
        assert not self._answering, "one exchange at a time"
        self._answering = True
        try:
            async with asyncio.timeout(self._workers.call_seconds()):
                kind, payload = await self._process.exchange(calls, self._workers.on_print)
        except TimeoutError as error:
            raise _interrupted() from error
        except WorkerDied as error:
            raise self._workers.died() from error
        if kind is Kind.FAILED:
            fields = document_to_python(payload)
            raise CommandError(fields["code"], fields["message"])
        self._answering = False
        return payload

    async def end(self) -> None:
        """Say that no more calls come; a worker that is in the middle of one, or has failed, is not used again."""
        if self._answering:
            return
        try:
            await self._process.finish()
        except WorkerDied:
            return


class _Process:
    """One worker process and our end of its socket. `ready` says that it waits for a job."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket, directory: str) -> None:
        self._process = process
        self._channel = channel
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._stop_feeding = False
        self.ready = True

    @classmethod
    async def spawn(cls, spill: Path) -> _Process:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        ours.setblocking(False)
        root = str(Path(docstore.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        spill.mkdir(parents=True, exist_ok=True)
        directory = tempfile.mkdtemp(prefix=SPILL_PREFIX, dir=spill)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "docstore.js.worker", str(theirs.fileno()), directory,
                pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        return cls(process, ours, directory)

    async def run(
        self,
        description: bytes,
        batches: AsyncIterator[list[bytes]],
        sink: Sink,
        on_print: Callable[[str], None] | None,
    ) -> Counts:
        """Run one operation from its description to its counts."""
        self.ready = self._stop_feeding = False
        feeder = asyncio.create_task(self._feed(description, batches))
        collector = asyncio.create_task(self._collect(sink, on_print))
        try:
            await asyncio.wait((feeder, collector), return_when=asyncio.FIRST_EXCEPTION)
            if feeder.done():
                feeder.result()
            kind, payload = collector.result()
        finally:
            feeder.cancel()
            collector.cancel()
            await asyncio.gather(feeder, collector, return_exceptions=True)
        fields = document_to_python(payload)
        self.ready = fields.pop("peak") < RETIRE_BYTES
        if kind is Kind.FAILED:
            raise CommandError(fields["code"], fields["message"])
        return Counts(**fields)

    async def open(self, job: bytes) -> None:
        """Begin an operation that is driven by `exchange`."""
        self.ready = False
        try:
            await self._send(job)
        except ConnectionError as error:
            raise WorkerDied from error

    async def exchange(self, calls: bytes, on_print: Callable[[str], None] | None) -> tuple[Kind, bytes]:
        """Send calls and receive their answer, or the failure that ended the operation."""
        try:
            await self._send(HEADER.pack(len(calls), Kind.CALLS))
            await self._send(calls)
        except ConnectionError as error:
            raise WorkerDied from error
        while True:
            length, number = HEADER.unpack(await self._receive(HEADER.size))
            payload = await self._receive(length)
            if Kind(number) is not Kind.PRINTED:
                return Kind(number), payload
            if on_print is not None:
                on_print(payload.decode())

    async def finish(self) -> None:
        """End an operation that was driven by `exchange`; the worker is ready for the next one."""
        try:
            await self._send(frame(Kind.END))
        except ConnectionError as error:
            raise WorkerDied from error
        length, number = HEADER.unpack(await self._receive(HEADER.size))
        fields = document_to_python(await self._receive(length))
        self.ready = Kind(number) is Kind.DONE and fields["peak"] < RETIRE_BYTES

    async def _feed(self, description: bytes, batches: AsyncIterator[list[bytes]]) -> None:
        try:
            await self._send(frame(Kind.JOB, description))
            async for batch in batches:
                for chunk in chunks(batch):
                    if self._stop_feeding:
                        break
                    await self._send(HEADER.pack(len(chunk), Kind.DOCUMENTS))
                    await self._send(chunk)
                if self._stop_feeding:
                    break
            await self._send(frame(Kind.END))
        except ConnectionError as error:
            raise WorkerDied from error

    async def _collect(self, sink: Sink, on_print: Callable[[str], None] | None) -> tuple[Kind, bytes]:
        """Hand out results until the frame that ends the operation, and return that."""
        while True:
            length, number = HEADER.unpack(await self._receive(HEADER.size))
            payload = await self._receive(length)
            match Kind(number):
                case Kind.RESULTS:
                    await sink(split_documents(payload))
                case Kind.PRINTED:
                    if on_print is not None:
                        on_print(payload.decode())
                case kind:
                    self._stop_feeding = kind is Kind.FAILED
                    return kind, payload

    async def _send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._channel, data)

    async def _receive(self, length: int) -> bytes:
        payload = bytearray(length)
        target = memoryview(payload)
        while target:
            try:
                count = await self._loop.sock_recv_into(self._channel, target)
            except ConnectionError as error:
                raise WorkerDied from error
            if count == 0:
                raise WorkerDied
            target = target[count:]
        return bytes(payload)

    def has_ended(self) -> bool:
        """Return whether an idle worker has closed its end of the socket, as it does when it ends."""
        try:
            return self._channel.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def kill(self) -> None:
        """End the process at once; its user gets `WorkerDied`."""
        self.ready = False
        if self._process.returncode is None:
            self._process.kill()

    async def reap(self) -> None:
        """Kill the process, wait, and remove its files. Not during `run`."""
        self.kill()
        self._channel.close()
        await self._process.wait()
        shutil.rmtree(self._directory)


def _describe(job: MapReduceJob, limits: Limits, *, merge: bool, final: bool) -> bytes:
    functions = {"map": job.map, "reduce": job.reduce}
    if job.finalize is not None:
        functions["finalize"] = job.finalize
    fields: dict[str, object] = {
        "functions": {name: {"type": kind, "value": value} for name, (kind, value) in functions.items()},
        "merge": merge, "final": final, "heap": limits.heap, "data": limits.data, "spill": limits.spill,
    }  # fmt: skip
    if job.scope is not None:
        fields["scope"] = job.scope
    if job.stored is not None:
        fields["stored"] = job.stored
    if job.collation is not None:
        fields["collation"] = job.collation.raw
    return bson.encode(fields)
