"""Waiting for a condition, the only way in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout: float, *, poll: float = 0.02) -> None:
    """Return once the condition holds; AssertionError when it does not within `timeout` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"the condition did not hold within {timeout} s"
        time.sleep(poll)
