"""When all objects are looked at for garbage."""

from __future__ import annotations

import asyncio

import pytest

from docstore.net.allocator import resident_bytes
from docstore.net.garbage import FreeMemory, is_due


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
