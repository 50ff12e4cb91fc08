"""When all objects are looked at for garbage."""

from __future__ import annotations

import pytest

from docstore.net.garbage import is_due


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
