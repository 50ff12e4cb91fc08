"""Who gets the loop: requests that have come before long work, and long work by fair shares."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from docstore.net.scheduling.fair_queue import BACKGROUND, BACKGROUND_EVERY, FairQueue, Owner
from docstore.net.scheduling.scheduler import SLICE_SECONDS, STEP_SECONDS, Scheduler, never_ready, socket_readiness


class Clock:
    """A clock that work moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run_queue(queue: FairQueue[Owner], slices: int, seconds: Callable[[Owner], float]) -> Counter[Owner]:
    """Give out slices; each waiter comes back at once. Return the microseconds by owner."""
    used: Counter[Owner] = Counter()
    for _ in range(slices):
        owner, waiter = queue.pop()
        assert owner is waiter or owner == waiter
        slice_seconds = seconds(owner)
        used[owner] += round(slice_seconds * 1e6)
        queue.charge(owner, slice_seconds)
        queue.add(owner, waiter)
    return used


def test_operations_of_a_user_get_equal_time_whatever_their_slices_take() -> None:
    queue: FairQueue[Owner] = FairQueue()
    owners = [Owner("ada", number) for number in range(4)]
    for owner in owners:
        queue.add(owner, owner)
    used = run_queue(queue, 4000, lambda owner: (1 + owner.operation) * 1e-3)
    assert max(used.values()) < 1.01 * min(used.values())


def test_a_user_with_many_operations_gets_no_more_than_one_with_one() -> None:
    queue: FairQueue[Owner] = FairQueue()
    for number in range(20):
        queue.add(Owner("many", number), Owner("many", number))
    queue.add(Owner("one", 99), Owner("one", 99))
    used = run_queue(queue, 4000, lambda _: 1e-3)
    assert abs(used[Owner("one", 99)] - sum(used.values()) / 2) < 2000


def test_an_operation_that_comes_late_has_saved_up_nothing() -> None:
    queue: FairQueue[Owner] = FairQueue()
    old, new = Owner("ada", 1), Owner("bob", 2)
    queue.add(old, old)
    run_queue(queue, 1000, lambda _: 1e-3)
    queue.add(new, new)
    used = run_queue(queue, 100, lambda _: 1e-3)
    assert abs(used[old] - used[new]) <= 2000


@pytest.mark.parametrize("beside", [1, 4, 16])
@pytest.mark.parametrize("users", [1, 3])
def test_newcomers_that_never_end_do_not_keep_out_who_waits(beside: int, users: int) -> None:
    """Operations come, have one slice, and end; as many as wait are always there."""
    queue: FairQueue[Owner] = FairQueue()
    long = Owner("user 0", 0)
    queue.add(long, long)
    numbers = itertools.count(1)

    def add_newcomer() -> None:
        number = next(numbers)
        owner = Owner(f"user {number % users}", number)
        queue.add(owner, owner)

    for _ in range(beside):
        add_newcomer()
    slices = 0
    for _ in range(4000):
        owner, _ = queue.pop()
        queue.charge(owner, 1e-3)
        if owner == long:
            slices += 1
            queue.add(long, long)
        else:
            add_newcomer()
    assert slices >= 4000 / (beside + 1) / 3


def test_background_work_comes_last_and_still_comes() -> None:
    queue: FairQueue[Owner] = FairQueue()
    for owner in (Owner("ada", 1), BACKGROUND):
        queue.add(owner, owner)
    used = run_queue(queue, 1000, lambda _: 1e-3)
    assert used[BACKGROUND] == 1000 * 1000 / BACKGROUND_EVERY
    alone: FairQueue[Owner] = FairQueue()
    alone.add(BACKGROUND, BACKGROUND)
    assert run_queue(alone, 10, lambda _: 1e-3)[BACKGROUND] == 10_000


def test_accounts_of_work_that_has_ended_are_forgotten() -> None:
    queue: FairQueue[Owner] = FairQueue()
    stays = Owner("ada", 0)
    queue.add(stays, stays)
    for number in range(1, 2000):
        passing = Owner(f"user {number % 500}", number)
        queue.add(passing, passing)
        for _ in range(2):
            owner, _ = queue.pop()
            queue.charge(owner, 1e-3)
        queue.add(stays, stays)
    assert len(queue._operations) < 200
    assert len(queue._users) < 200


def test_random_waiters_all_get_their_fair_share() -> None:
    dice = random.Random(dice_seed := random.randrange(10**6))
    queue: FairQueue[Owner] = FairQueue()
    owners = [Owner(f"user {dice.randrange(4)}", number) for number in range(12)]
    for owner in owners:
        queue.add(owner, owner)
    used = run_queue(queue, 20_000, lambda _: dice.uniform(0.5e-3, 8e-3))
    users = Counter(owner.user for owner in owners)
    for owner in owners:
        share = sum(used.values()) / len(users) / users[owner.user]
        assert used[owner] == pytest.approx(share, rel=0.05), f"seed {dice_seed}"


def test_an_empty_queue_has_nobody() -> None:
    with pytest.raises(IndexError):
        FairQueue[Owner]().pop()


def test_a_slice_lasts_longer_where_nobody_waits() -> None:
    clock, ready = Clock(), [False]
    scheduler = Scheduler(clock, lambda: ready[0])
    scheduler.begin_slice()
    clock.now += STEP_SECONDS
    assert not scheduler.is_due()
    clock.now += STEP_SECONDS
    ready[0] = True
    assert scheduler.is_due()
    ready[0] = False
    scheduler.begin_slice()
    clock.now += SLICE_SECONDS
    assert scheduler.is_due()
    scheduler.end_slice()
    assert scheduler.longest[0] == pytest.approx(SLICE_SECONDS)
    assert scheduler.slices == 1


def test_a_slice_ends_where_a_frame_waits() -> None:
    clock = Clock()
    scheduler = Scheduler(clock)
    turn = SimpleNamespace(waits=False)
    scheduler.watch(cast(Any, turn))
    scheduler.begin_slice()
    clock.now += STEP_SECONDS
    assert not scheduler.is_due()
    turn.waits = True
    clock.now += STEP_SECONDS
    assert scheduler.is_due()


def test_the_longest_step_is_told() -> None:
    clock = Clock()
    scheduler = Scheduler(clock)
    scheduler.begin_slice()
    for seconds in (0.001, 0.004, 0.002):
        clock.now += seconds
        scheduler.is_due()
    scheduler.end_slice()
    assert scheduler.status()["longestStep"] == {"micros": 4000, "command": ""}
    scheduler.begin_slice()
    clock.now += 0.006
    scheduler.end_slice()
    assert scheduler.longest_step[0] == pytest.approx(0.006)


async def work(scheduler: Scheduler, clock: Clock, seconds: float, slices: int, order: list[str], name: str) -> None:
    for _ in range(slices):
        await scheduler.pause()
        order.append(name)
        clock.now += seconds


def test_long_work_waits_while_sockets_are_ready_and_has_a_tenth_at_least() -> None:
    async def run() -> None:
        clock = Clock()
        order: list[str] = []
        busy = [True]
        scheduler = Scheduler(clock, lambda: busy[0])
        long = asyncio.ensure_future(work(scheduler, clock, 1e-3, 20, order, "long"))

        async def requests() -> None:
            """Requests that keep a socket ready for ever."""
            while busy[0]:
                clock.now += 1e-4
                order.append("short")
                await asyncio.sleep(0)

        short = asyncio.ensure_future(requests())
        await long
        busy[0] = False
        await short
        served = Counter(order)
        assert 60 <= served["short"] / served["long"] <= 100, "nine times the length of a slice, and not more"
        assert scheduler.deferrals > 0

    asyncio.run(run())


def test_only_one_slice_runs_between_two_looks_at_the_sockets() -> None:
    async def run() -> None:
        clock, order, looks = Clock(), list[str](), list[int]()

        def look() -> bool:
            looks.append(len(order))
            return False

        scheduler = Scheduler(clock, look)
        await asyncio.gather(*(work(scheduler, clock, 1e-3, 10, order, f"work {number}") for number in range(8)))
        assert all(later - sooner <= 1 for sooner, later in itertools.pairwise(looks))
        assert scheduler.waiting == 0

    asyncio.run(run())


def test_cancelled_work_gives_its_turn_away() -> None:
    async def run() -> None:
        clock, order = Clock(), list[str]()
        scheduler = Scheduler(clock, never_ready)
        first = asyncio.ensure_future(work(scheduler, clock, 1e-3, 5, order, "first"))
        second = asyncio.ensure_future(work(scheduler, clock, 1e-3, 5, order, "second"))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert order == ["second"] * 5

    asyncio.run(run())


@pytest.fixture(name="pair")
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_readable_socket_is_seen_without_reading_it(kind: str, pair: tuple[socket.socket, socket.socket]) -> None:
    factory = asyncio.new_event_loop if kind == "asyncio" else pytest.importorskip("uvloop").new_event_loop

    async def run() -> None:
        ours, theirs = pair
        loop = asyncio.get_running_loop()
        received: list[bytes] = []
        loop.add_reader(ours.fileno(), lambda: received.append(ours.recv(10)))
        await asyncio.sleep(0)
        is_ready = socket_readiness(loop)
        assert not is_ready()
        theirs.send(b"x")
        assert is_ready()
        while not received:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not is_ready()
        loop.remove_reader(ours.fileno())

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run())
