"""When all objects are looked at for garbage."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from docstore.net.memory import garbage
from docstore.net.memory.allocator import resident_bytes
from docstore.net.memory.garbage import FreeMemory, GarbageCollection, is_due


@pytest.mark.parametrize(
    ("aged", "more_blocks", "late", "due"),
    [
        (0, 0, True, False),
        (100, 0, False, True),
        (100, -5000, False, True),
        (100, 10_000_000, False, False),
        (100, 10_000_000, True, True),
    ],
)
def test_a_full_collection_waits_for_garbage_and_for_memory(aged: int, more_blocks: int, late: bool, due: bool) -> None:
    assert is_due(aged, more_blocks, late=late) is due


def test_a_process_gives_back_what_lies_free_between_what_is_in_use() -> None:
    async def grow_and_wait() -> None:
        memory = FreeMemory(asyncio.get_running_loop())
        before = resident_bytes()
        memory.start()
        large = [bytearray(8_000) for _ in range(16_000)]
        scattered = large[::200]
        large.clear()
        try:
            while resident_bytes() > before + 40 * 1024 * 1024:
                await asyncio.sleep(0.01)
        finally:
            memory.stop()
        assert len(scattered) == 80

    asyncio.run(asyncio.wait_for(grow_and_wait(), 60))


def test_few_objects_in_a_cycle_that_hold_much_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Node:
        def __init__(self) -> None:
            self.itself, self.held = self, bytearray(48 << 20)

    async def leave_and_wait() -> None:
        monkeypatch.setattr(garbage, "_LOOK_SECONDS", 0.01)
        collection = GarbageCollection(asyncio.get_running_loop())
        collection.start()
        try:
            left = weakref.ref(Node())
            while left() is not None:
                # Again and again: meanwhile what other tests have held may be given back.
                Node()
                await asyncio.sleep(0.05)
        finally:
            collection.stop()

    thresholds = gc.get_threshold()
    try:
        asyncio.run(asyncio.wait_for(leave_and_wait(), 20))
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Looks:
    """A loop whose time goes by from one look to the next, and memory of which some lies free."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.used, self.free, self.times = 100 << 20, 0, 0
        self._next: Callable[[], None] = lambda: None
        patch.setattr(garbage, "resident_bytes", lambda: self.used + self.free)
        patch.setattr(garbage, "give_back", self._give_back)

    def _give_back(self) -> None:
        self.free = 0
        self.times += 1

    def call_later(self, _seconds: float, look: Callable[[], None]) -> None:
        self._next = look

    def run_in_executor(self, _executor: None, work: Callable[[], None]) -> Any:
        work()
        return self

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        told(None)

    def look(self) -> None:
        self._next()


def test_what_is_taken_again_at_once_is_not_given_back_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    FreeMemory(looks).start()  # type: ignore[arg-type]
    for _ in range(160):
        looks.free = 64 << 20
        looks.look()
    assert 1 <= looks.times <= 16
    looks.free = 64 << 20
    for _ in range(16):
        looks.look()
    assert looks.free == 0
    for _ in range(40):
        looks.look()
    assert looks.times <= 18
    looks.free = 64 << 20
    looks.look()
    assert looks.free == 0
