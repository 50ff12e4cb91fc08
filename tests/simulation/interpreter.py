"""The clock and the dice of this interpreter, replaced before anything of the product is imported.

`take_over` is called first of all in a simulating process. From then on `time.monotonic`, `time.time`, `os.urandom`,
`random` and what stands on them (uuid, secrets, ObjectId) ask the world that is being simulated, so that no module of
the product, however it came by its clock, reaches the machine's. Without a world they are the machine's own.

Times are resolved for the process whose code runs: each has a monotonic clock of its own origin and a wall clock that
may drift and jump.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

HASH_SEED = "0"
_ADDR_NO_RANDOMIZE = 0x0040000

real_monotonic = time.monotonic
real_time = time.time
real_cpu = time.process_time


class Clock(Protocol):
    """Of one process."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...


class Surroundings(Protocol):
    """What a world gives to code that belongs to no process of it, and the randomness of all."""

    clock: Clock
    entropy: random.Random


CURRENT: ContextVar[Any] = ContextVar("simulated process", default=None)
"""The process (an `Incarnation`) whose code runs, None for the simulation's own."""

_world: Surroundings | None = None
_real_urandom = os.urandom
_taken_over = False


def enter(world: Surroundings) -> None:
    """From now on, code in this interpreter lives in that world."""
    global _world
    _world = world


def reexecute_deterministically() -> None:
    """Start this program anew, once, with fixed hashes and addresses: the order of sets hangs on them."""
    if os.environ.get("PYTHONHASHSEED") == HASH_SEED and os.environ.get("SIMULATION_ADDRESSES") == "fixed":
        return
    ctypes.CDLL(None).personality(_ADDR_NO_RANDOMIZE)
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED, "SIMULATION_ADDRESSES": "fixed"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def _monotonic() -> float:
    # Some thousand times a schedule.
    if _world is None:
        return real_monotonic()
    clock: Clock = CURRENT.get() or _world.clock
    return clock.monotonic()


def _wall() -> float:
    if _world is None:
        return real_time()
    clock: Clock = CURRENT.get() or _world.clock
    return clock.wall()


def _urandom(size: int) -> bytes:
    return _real_urandom(size) if _world is None else _world.entropy.randbytes(size)


def _in_nanoseconds(seconds: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(seconds() * 1_000_000_000)


class _SeededRandom(random.Random):
    """A generator that nobody has seeded is seeded by the world."""

    def __new__(cls, *_arguments: Any) -> _SeededRandom:
        return super().__new__(cls)

    def __init__(self, seed: Any = None) -> None:
        if seed is None and _world is not None:
            seed = _world.entropy.getrandbits(64)
        super().__init__(seed)


def take_over() -> None:
    """Replace the interpreter's clock and dice. Before the first import of the product."""
    global _taken_over
    if _taken_over:
        return
    assert "docstore" not in sys.modules, "the product has bound the machine's clock already"
    _taken_over = True
    time.monotonic = _monotonic
    time.time = _wall
    time.perf_counter = _monotonic
    time.monotonic_ns = _in_nanoseconds(_monotonic)
    time.time_ns = _in_nanoseconds(_wall)
    time.perf_counter_ns = _in_nanoseconds(_monotonic)
    os.urandom = _urandom
    random._urandom = _urandom  # type: ignore[attr-defined]
    random.Random = _SeededRandom  # type: ignore[misc]


def seed_identifiers(world: Surroundings) -> None:
    """Make the ids that are drawn from here on follow from the world's dice alone."""
    from bson.objectid import ObjectId

    random.seed(world.entropy.getrandbits(64))
    ObjectId._pid = os.getpid()
    ObjectId._ObjectId__random = world.entropy.randbytes(5)  # type: ignore[attr-defined]
    ObjectId._inc = world.entropy.getrandbits(24)
