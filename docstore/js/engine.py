"""V8 isolates for plain synchronous callers: the one module that touches the private names of `py_mini_racer`.

The public interface of the package needs an asyncio loop, passes no bytes and makes every call from JavaScript to
Python a promise. Below it lies a C library that does what we want: run a script on the isolate's own thread, stop it,
hand out the address of a buffer, call Python synchronously. This module binds that library;
`tests/unit/js/test_engine.py` fails when a new release moves it. The names were taken from release 0.14.1, which
`setup.cfg` pins.

* An isolate runs one task at a time, on a thread of its own; the GIL is released meanwhile.
* A buffer's view is valid only while JavaScript keeps the buffer reachable and until `close`: touching it later is a
  segmentation fault, so owners keep the buffer in a variable for as long as the view is used.
* A host function runs inside the JavaScript call, on the isolate's thread. It must not use that isolate.
* After a task was stopped the isolate is good for nothing but `close`.
"""

from __future__ import annotations

import ctypes
import queue
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import Any

from py_mini_racer import _dll

HEAP_FLAGS = ("--max-old-space-size=4000", "--min-semi-space-size=16")
"""V8's own ceiling stands above every limit of ours, because reaching it ends the process; a young generation that
starts at 16 MB saves early collections. The package's own default, `--single-threaded`, makes everything a third
slower."""

_NULL, _BOOL, _INTEGER, _DOUBLE, _STRING, _UNDEFINED = 1, 2, 3, 4, 5, 11
_SHARED_BUFFER, _BUFFER = 101, 102


class Failure(Enum):
    """The reason why a task ended without a value."""

    THROWN = 200
    SYNTAX = 201
    MEMORY = 202
    STOPPED = 204
    VALUE = 205
    KEY = 206


_FAILURES = {failure.value: failure for failure in Failure}


class ScriptError(Exception):
    """JavaScript ended without a value; the message is V8's own text, with the stack where there is one."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class TimeUp(Exception):
    """The task did not end within the time allowed and was stopped."""


class Handle:
    """A JavaScript object or function kept alive for Python; freed with its isolate."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw


Value = None | bool | int | float | str | memoryview | Handle


def initialize(flags: tuple[str, ...] = HEAP_FLAGS) -> Any:
    """Load the library, once per process; flags are V8's command-line flags and cannot be changed later."""
    return _dll.init_mini_racer(flags=flags, ignore_duplicate_init=True)


class Isolate:
    """One V8 heap with one global object. `heap_limit` is in bytes; past it a task ends with `Failure.MEMORY`."""

    def __init__(self, *, heap_limit: int | None = None) -> None:
        self._dll = initialize()
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._hosts: dict[int, Callable[[], None]] = {}
        self._ids = count(1)
        self._callback = _dll.MR_CALLBACK(self._called)  # V8 keeps only the address: this reference keeps it valid
        self._context = self._dll.mr_init_context(self._callback)
        if heap_limit is not None:
            self._dll.mr_set_hard_memory_limit(self._context, heap_limit)
        self._no_arguments = self.evaluate("[]")
        self._undefined = self._dll.mr_alloc_int_val(self._context, 0, _UNDEFINED)

    def close(self) -> None:
        """Free the heap and end its thread. Every view and handle becomes invalid."""
        if self._context is not None:
            context, self._context = self._context, None
            self._dll.mr_free_context(context)

    def evaluate(self, source: str, timeout: float | None = None) -> Value:
        """Run a script and wait for its completion value."""
        return self._await(self.start(source), timeout)

    def call(self, function: Value, argument: Handle | None = None) -> Value:
        """Call a function handle, with one argument or none, and wait for its value."""
        self.start_call(function, argument)
        return self.finished()

    def start(self, source: str) -> int:
        """Begin a script; `finished` then tells its value. Returns the task, for `stop`."""
        text = source.encode("utf-8", "surrogatepass")
        handle = self._dll.mr_alloc_string_val(self._context, text, len(text), _STRING)
        try:
            return int(self._dll.mr_eval(self._context, handle, next(self._ids)))
        finally:
            self._dll.mr_free_value(self._context, handle)

    def start_call(self, function: Value, argument: Handle | None = None) -> int:
        """Begin a call with one argument or none. Returns the task."""
        assert isinstance(function, Handle)
        arguments = self._no_arguments
        if argument is not None:
            arguments = self.evaluate("[]")
            assert isinstance(arguments, Handle)
            self._free(self._dll.mr_array_push(self._context, arguments.raw, argument.raw))
        assert isinstance(arguments, Handle)
        task = self._dll.mr_call_function(self._context, function.raw, self._undefined, arguments.raw, next(self._ids))
        if argument is not None:
            self._free(arguments.raw)
        return int(task)

    def stop(self, task: int) -> None:
        """Ask V8 to end a task; it then finishes with `Failure.STOPPED`. Ignored when it has ended by itself."""
        self._dll.mr_cancel_task(self._context, task)

    def finished(self, timeout: float | None = None) -> Value:
        """The value of the task begun last; waits up to `timeout` seconds, `TimeUp` after that."""
        return self._to_python(self._result(timeout))

    def finished_handle(self, timeout: float | None = None) -> Handle:
        """Like `finished`, but the value stays in JavaScript, also if it has no Python form; release the handle with
        `free`.
        """
        raw = self._result(timeout)
        self._raise_failure(raw)
        return Handle(raw)

    def free(self, handle: Handle) -> None:
        """Release a value."""
        self._free(handle.raw)

    def host_function(self, body: Callable[[], None]) -> Handle:
        """Return a JavaScript function whose call runs `body` and returns undefined when `body` has returned.

        Arguments and results travel through buffers. `body` must not raise: nothing above it can catch the error.
        """
        number = next(self._ids)
        self._hosts[number] = body
        return Handle(self._dll.mr_make_js_callback(self._context, number))

    def exhausted(self) -> bool:
        """True if the heap limit ended a task; V8 does not always say so in the failure."""
        return bool(self._dll.mr_hard_memory_limit_reached(self._context))

    def _await(self, task: int, timeout: float | None) -> Value:
        try:
            return self.finished(timeout)
        except TimeUp:
            self.stop(task)
            raise

    def _result(self, timeout: float | None) -> Any:
        try:
            return self._done.get(timeout=timeout)
        except queue.Empty:
            raise TimeUp from None

    def _called(self, number: int, raw: Any) -> None:
        host = self._hosts.get(number)
        if host is not None:
            host()
            self._free(raw)
            return
        self._done.put(raw)

    def _free(self, raw: Any) -> None:
        self._dll.mr_free_value(self._context, raw)

    def _to_python(self, raw: Any) -> Value:
        kind, value, length = raw.contents.type, raw.contents.value, raw.contents.len
        if kind in (_SHARED_BUFFER, _BUFFER):
            if not length:
                return memoryview(b"")
            return memoryview((ctypes.c_ubyte * length).from_address(value.value_ptr)).cast("B")
        self._raise_failure(raw)
        plain: Value
        if kind in (_NULL, _UNDEFINED):
            plain = None
        elif kind == _BOOL:
            plain = value.int_val == 1
        elif kind == _INTEGER:
            plain = int(value.int_val)
        elif kind == _DOUBLE:
            plain = float(value.double_val)
        elif kind == _STRING:
            plain = value.bytes_val[0:length].decode("utf-8", "replace")
        else:
            return Handle(raw)
        self._free(raw)
        return plain

    def _raise_failure(self, raw: Any) -> None:
        kind = raw.contents.type
        if kind in _FAILURES:
            message = raw.contents.value.bytes_val[0 : raw.contents.len].decode("utf-8", "replace")
            self._free(raw)
            raise ScriptError(_FAILURES[kind], message)
