"""One map-reduce or one request's calls in one isolate: the Python side of `runtime/server.js`.

Documents go in through two halves of a buffer, so that the next batch can be received while V8 works on the last one;
results come out of another. Calls are made through a function without arguments and numbers in a shared array,
because that is the cheapest call that the engine has.

* At most one operation runs; `settle` waits for it and raises its failure.
* Views of buffers stay valid because the runtime keeps the buffers in its own variables; the output's is fetched anew
  after every drain, because it may have moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import IntEnum

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import Value
from docstore.errors import Code, CommandError
from docstore.js.engine import Failure, Isolate, ScriptError
from docstore.js.engine import Value as ScriptValue
from docstore.js.fields import fields_read
from docstore.js.job import MEBIBYTE, Counts, Limits, MapReduceJob
from docstore.js.runtime import SERVER, source
from docstore.query.value.collation import Collation
from docstore.query.value.values import string_value

STRING, CODE, CODE_WITH_SCOPE = 2, 13, 15

HALF = 17 * MEBIBYTE
"""Capacity of each of the two input places: the largest document fits."""


class Operation(IntEnum):
    """The operations of `step`; the numbers are those of server.js."""

    START = 0
    MAP = 1
    DRAIN_RUN = 2
    DRAIN_FINAL = 3
    DRAIN_MORE = 4
    MERGE = 5
    MERGE_END = 6
    MERGE_START = 7
    EVALUATE = 8


_OPERATION, _POSITION, _LIMIT, _FINAL, _SPILL_AT, _MORE, _OUTPUT_LENGTH, _COUNTS = range(8)
_FOLDED_LENGTH = 12


def function_source(value: Value) -> tuple[str, bytes | None]:
    """Source text and scope document of a function given as code, code with scope or string."""
    kind, raw = value
    if kind in (STRING, CODE):
        return raw[4:-1].decode("utf-8"), None
    assert kind == CODE_WITH_SCOPE, f"BSON type {kind} is no function"
    length = int.from_bytes(raw[4:8], "little")
    return raw[8 : 7 + length].decode("utf-8"), raw[8 + length :]


class Session:
    """A fresh isolate: `start` makes it one for a map-reduce, `evaluate` serves calls.

    `usable` turns false when V8 itself ended the script, for want of memory say; only `close` is allowed then.
    """

    def __init__(self, limits: Limits) -> None:
        self._isolate = Isolate(heap_limit=limits.heap)
        self._running = False
        self._next = self._limit = 0
        self.usable = True
        try:
            self._load()
        except BaseException:
            self._isolate.close()
            raise

    def close(self) -> None:
        self._isolate.close()

    def input(self, length: int) -> memoryview:
        """The place for the next batch of `length` bytes, at most HALF; free to write while the last batch is worked
        on.
        """
        assert length <= HALF, f"a batch of {length} bytes"
        start = self._next * HALF
        return self._inputs[start : start + length]

    def begin(self, operation: Operation, length: int) -> None:
        """Start MAP or MERGE on the batch in the place that `input` gave out last."""
        self.settle()
        start = self._next * HALF
        self._control[_POSITION] = start
        self._limit = start + length
        self._perform(operation)
        self._next = 1 - self._next

    def settle(self) -> None:
        """Wait for the running operation. CommandError when user code failed."""
        if self._running:
            self._running = False
            _raise(self._finished())

    def paused(self) -> bool:
        """True if mapping stopped within its batch because the groups exceed the spill limit."""
        self.settle()
        return self._control[_POSITION] < self._limit

    def resume(self) -> None:
        """Continue with the paused batch, after its groups were drained."""
        self._perform(Operation.MAP)

    def evaluate(self, length: int) -> memoryview:
        """The answer to the calls in the place that `input` gave out last."""
        self.begin(Operation.EVALUATE, length)
        self.settle()
        return self.output()

    def counts(self) -> Counts:
        return Counts(*(int(count) for count in self._control[_COUNTS : _COUNTS + 4]))

    def drain(self, operation: Operation, *, final: bool = False) -> Iterator[memoryview]:
        """Yield all groups so far, in the order of keys, in chunks of whole result documents; then forget them."""
        self._settled(operation, final=final)
        has_more = True
        while has_more:
            self._settled(Operation.DRAIN_MORE)
            has_more = self._control[_MORE] == 1
            yield self.output()

    def start_merge(self, *, final: bool) -> None:
        """Make ready for MERGE batches: results in one stream sorted by key."""
        self._settled(Operation.MERGE_START, final=final)

    def end_merge(self) -> memoryview:
        """The last result of a merge."""
        self._settled(Operation.MERGE_END)
        return self.output()

    def output(self) -> memoryview:
        """Return the output of the last settled operation; valid until the next one."""
        return self._buffer("output")[: int(self._control[_OUTPUT_LENGTH])]

    def take_printed(self) -> str:
        """Return the output of the user code's prints since the last call."""
        text = self._isolate.call(self._entry["takePrinted"])
        assert isinstance(text, str)
        return text

    def _load(self) -> None:
        names = ("control", "input", "output", "takePrinted", "step", "foldPlace", "foldWith")
        self._isolate.evaluate(f"var entry = {source(SERVER, input_bytes=2 * HALF)}")
        self._entry = {name: self._isolate.evaluate(f"entry.{name}") for name in names}
        self._isolate.evaluate("delete globalThis.entry; entry = undefined")
        self._control = self._buffer("control").cast("d")
        self._inputs = self._buffer("input")

    def start(self, job: MapReduceJob, *, final: bool) -> None:
        """Make ready for `job`; `final` says that finalize is to run. CommandError when a function does not compile."""
        functions = {"map": job.map, "reduce": job.reduce}
        if job.finalize is not None:
            functions["finalize"] = job.finalize
        sources = {}
        scopes = [] if job.scope is None else [job.scope]
        for name, value in functions.items():
            sources[name], scope = function_source(value)
            if scope is not None:
                scopes.append(scope)
        if job.stored is not None:
            scopes.append(job.stored)  # these hide all others of their names
        other_texts = [text for name, text in sources.items() if name != "map"]
        fields = None if scopes else fields_read(sources["map"], other_texts)
        definition = bson.encode(
            {**sources, "final": final, "scopes": [RawBSONDocument(scope) for scope in scopes]}
            | ({} if fields is None else {"fields": fields})
        )
        self.input(len(definition))[:] = definition
        self._control[_SPILL_AT] = job.limits.spill
        self._settled(Operation.START)
        if job.collation is not None:
            self._collate(job.collation)

    def _collate(self, collation: Collation) -> None:
        """Make a collation compare keys: JavaScript asks for the sort keys of strings."""
        buffer = self._buffer("foldPlace")

        def fold() -> None:
            length = int(self._control[_FOLDED_LENGTH])
            key = collation.fold(string_value(bytes(buffer[:length]).decode()))[1][4:]
            if len(key) > len(buffer):
                self._control[_FOLDED_LENGTH] = -1
                return
            buffer[: len(key)] = key
            self._control[_FOLDED_LENGTH] = len(key)

        self._isolate.call(self._entry["foldWith"], self._isolate.host_function(fold))

    def _settled(self, operation: Operation, *, final: bool = False) -> None:
        self.settle()
        self._control[_FINAL] = final
        self._perform(operation)
        self.settle()

    def _perform(self, operation: Operation) -> None:
        self._control[_OPERATION] = operation
        self._control[_LIMIT] = self._limit
        self._isolate.start_call(self._entry["step"])
        self._running = True

    def _finished(self) -> ScriptValue:
        try:
            return self._isolate.finished()
        except ScriptError as error:
            self.usable = False
            if error.failure is Failure.MEMORY or self._isolate.exhausted():
                raise CommandError(Code.JSInterpreterFailure, "Out of memory") from error
            raise CommandError(Code.JSInterpreterFailure, str(error)) from error

    def _buffer(self, name: str) -> memoryview:
        view = self._isolate.call(self._entry[name])
        assert isinstance(view, memoryview)
        return view


def _raise(failure: ScriptValue) -> None:
    if failure is not None:
        assert isinstance(failure, str)
        code, message = json.loads(failure)
        raise CommandError(code, message)
