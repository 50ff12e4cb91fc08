"""Waiting for a condition, or until something can be done: the only ways in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], object], timeout: float, *, poll: float = 0.02) -> None:
    """Return once the condition holds; AssertionError when it does not within `timeout` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"the condition did not hold within {timeout} s"
        time.sleep(poll)


def tried_until_done(
    attempt: Callable[[], T], again: tuple[type[Exception], ...], timeout: float, *, poll: float = 0.02
) -> T:
    """The result of an attempt, which is made again while it ends with one of these errors; the last of them when it
    still does after `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            return attempt()
        except again:
            if time.monotonic() >= end:
                raise
        time.sleep(poll)
