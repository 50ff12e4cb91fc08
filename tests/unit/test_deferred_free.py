"""Large structures are taken apart in slices, and nothing that somebody still has."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from docstore.deferred_free import DeferredFree


class Member:
    """Counts how many of its kind there are."""

    alive = 0

    def __init__(self, *held: object) -> None:
        type(self).alive += 1
        self.held = held

    def __del__(self) -> None:
        type(self).alive -= 1


@pytest.fixture
def deferred() -> DeferredFree:
    Member.alive = 0
    deferred = DeferredFree()
    deferred.wake = lambda: None
    return deferred


def members(count: int) -> list[Member]:
    return [Member() for _ in range(count)]


MAKERS: list[Callable[[], Any]] = [
    lambda: members(3000),
    lambda: {number: Member(number) for number in range(3000)},
    lambda: set(members(3000)),
    lambda: deque(members(3000)),
    lambda: tuple(members(3000)),
    lambda: [members(1000), {"x": [members(1000)]}, Member(members(999))],
    lambda: (member for member in iter(members(3000))),
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_slice_takes_a_part_and_the_last_one_the_rest(deferred: DeferredFree, make: Callable[[], Any]) -> None:
    deferred.free_later(make())
    ticks = itertools.count()
    slices = 1
    while not deferred.sweep(lambda: float(next(ticks)), next(ticks)):
        slices += 1
    assert Member.alive == 0
    assert slices > 1


def test_what_others_have_stays_whole(deferred: DeferredFree) -> None:
    kept = members(2000)
    deferred.free_later([kept, members(5)])
    assert deferred.sweep(lambda: 0.0, 1.0)
    assert Member.alive == len(kept) == 2000


def test_it_wakes_its_process_once_for_what_comes_together(deferred: DeferredFree) -> None:
    woken: list[int] = []
    deferred.wake = lambda: woken.append(1)
    deferred.free_later(members(3))
    deferred.free_later(members(3))
    assert deferred.sweep(lambda: 0.0, 1.0)
    deferred.free_later(members(3))
    assert len(woken) == 2


def test_without_a_process_the_last_reference_is_the_callers() -> None:
    Member.alive = 0
    DeferredFree().free_later(members(3))
    assert Member.alive == 0


def test_all_can_go_at_once(deferred: DeferredFree) -> None:
    deferred.free_later(members(2000))
    deferred.clear()
    assert Member.alive == 0
