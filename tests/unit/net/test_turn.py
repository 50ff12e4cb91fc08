"""Frames that are handled and sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from docstore.net.turn import DEFERRED_SECONDS, MOST_BYTES, MOST_SECONDS, SHARE_SECONDS, STRANGERS_SECONDS, Turn


class Recorded(asyncio.Transport):
    """A transport that notes in a common list what it is given."""

    def __init__(self, name: str, sent: list[tuple[str, bytes]]) -> None:
        super().__init__()
        self._name, self._sent = name, sent
        self.closed = False

    def write(self, data: Any) -> None:
        self._sent.append((self._name, bytes(data)))

    def is_closing(self) -> bool:
        return self.closed


class Client:
    """A connection that does `handle` with what comes."""

    def __init__(self, handle: Callable[[bytes], None]) -> None:
        self.begin = handle


class Watched:
    """A turn at a time of its own, and what has been sent in it."""

    def __init__(self) -> None:
        self.now = 1.0
        self.sent: list[tuple[str, bytes]] = []
        self.turn = Turn(asyncio.get_running_loop(), lambda: self.now)
        self.a, self.b = Recorded("a", self.sent), Recorded("b", self.sent)


def test_what_is_put_in_a_turn_is_sent_behind_it_in_order() -> None:
    async def work() -> None:
        watched = Watched()
        frames = [(watched.a, b"1"), (watched.b, b"2"), (watched.a, b"3")]
        for each in frames:
            watched.turn.enqueue(*each)
        assert not watched.sent
        await asyncio.sleep(0)
        assert watched.sent == [("a", b"1"), ("b", b"2"), ("a", b"3")]
        watched.turn.enqueue(watched.b, b"4")
        await asyncio.sleep(0)
        assert watched.sent[3:] == [("b", b"4")]

    asyncio.run(work())


def test_a_long_turn_or_a_long_frame_is_not_waited_for() -> None:
    async def work() -> None:
        watched = Watched()
        watched.turn.enqueue(watched.a, b"1")
        watched.turn.enqueue(watched.b, b"2")
        watched.now += MOST_SECONDS
        watched.turn.enqueue(watched.a, b"3")
        assert [frame for _, frame in watched.sent] == [b"1", b"2", b"3"]
        watched.turn.enqueue(watched.a, b"4")
        watched.turn.enqueue(watched.b, bytes(MOST_BYTES + 1))
        assert len(watched.sent) == 5
        watched.turn.enqueue(watched.a, b"6")
        await asyncio.sleep(0)
        assert watched.sent[5:] == [("a", b"6")]

    asyncio.run(work())


def test_what_is_for_a_closed_transport_is_dropped() -> None:
    async def work() -> None:
        watched = Watched()
        watched.turn.enqueue(watched.a, b"1")
        watched.turn.enqueue(watched.b, b"2")
        watched.a.closed = True
        watched.turn.send()
        assert watched.sent == [("b", b"2")]
        await asyncio.sleep(0)
        assert watched.sent == [("b", b"2")]

    asyncio.run(work())


def test_what_comes_in_a_turn_is_handled_in_order_and_answered_together() -> None:
    async def work() -> None:
        watched = Watched()

        def answer(frame: bytes) -> None:
            watched.sent.append(("handled", frame))
            watched.turn.enqueue(watched.a, frame)

        one, other = Client(answer), Client(answer)
        watched.turn.take(one, b"1")
        watched.turn.take(other, b"2")
        assert not watched.sent
        await asyncio.sleep(0)
        assert watched.sent == [("handled", b"1"), ("handled", b"2"), ("a", b"1"), ("a", b"2")]
        watched.turn.take(other, b"3")
        assert watched.sent[4:] == [("handled", b"3"), ("a", b"3")], "of one that waits for each reply nothing comes"
        watched.turn.take(one, b"4")
        watched.turn.take(one, b"5")
        assert len(watched.sent) == 6
        await asyncio.sleep(0)
        assert [frame for _, frame in watched.sent[6:]] == [b"4", b"5", b"4", b"5"]

    asyncio.run(work())


def test_a_failure_is_no_matter_of_the_others() -> None:
    async def work() -> None:
        watched = Watched()
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))

        def fail(frame: bytes) -> None:
            raise RuntimeError(frame)

        watched.turn.take(Client(lambda frame: watched.turn.enqueue(watched.a, frame)), b"1")
        watched.turn.take(Client(fail), b"2")
        watched.turn.take(Client(lambda frame: watched.turn.enqueue(watched.b, frame)), b"3")
        for _ in range(2):
            await asyncio.sleep(0)
        assert watched.sent == [("a", b"1"), ("b", b"3")]
        assert [type(context["exception"]) for context in told] == [RuntimeError]

    asyncio.run(work())


class Diligent:
    """A connection with `steps` of deferred work, of `STEP` seconds each, which notes them in `order`."""

    STEP = SHARE_SECONDS / 2

    def __init__(self, watched: Watched, name: str, steps: int, order: list[str], *, is_stranger: bool = False) -> None:
        self._watched, self._name, self._order, self._is_stranger = watched, name, order, is_stranger
        self.steps = steps
        watched.turn.defer(self, is_stranger)

    def advance(self, until: float) -> None:
        while self.steps:
            self.steps -= 1
            self._watched.now += self.STEP
            self._order.append(self._name)
            if self._watched.now >= until:
                break
        if self.steps:
            self._watched.turn.defer(self, self._is_stranger)


def test_deferred_work_of_all_has_one_time_in_a_turn_and_goes_round() -> None:
    async def work() -> None:
        watched, order = Watched(), list[str]()
        workers = [Diligent(watched, name, 1_000, order) for name in "abc"]
        began = watched.now
        await asyncio.sleep(0)
        assert DEFERRED_SECONDS <= watched.now - began < DEFERRED_SECONDS + SHARE_SECONDS
        assert order[:8] == ["a", "a", "b", "b", "c", "c", "a", "a"]
        done = sum(worker.steps for worker in workers)
        await asyncio.sleep(0)
        assert sum(worker.steps for worker in workers) < done, "it goes on in the next turn"

    asyncio.run(work())


def test_requests_come_before_deferred_work_and_strangers_last() -> None:
    async def work() -> None:
        watched, order = Watched(), list[str]()
        Diligent(watched, "stranger", 1_000, order, is_stranger=True)
        Diligent(watched, "user", 1_000, order)
        watched.turn.take(Client(lambda _frame: order.append("request")), b"")
        await asyncio.sleep(0)
        assert order[0] == "request"
        users = round(DEFERRED_SECONDS / Diligent.STEP)
        strangers = round(STRANGERS_SECONDS / Diligent.STEP)
        assert order[1:] == ["user"] * users + ["stranger"] * strangers

    asyncio.run(work())


def test_deferred_work_that_fails_is_no_matter_of_the_others() -> None:
    async def work() -> None:
        watched, order = Watched(), list[str]()
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))

        class Failing:
            def advance(self, until: float) -> None:
                raise RuntimeError

        watched.turn.defer(Failing(), False)
        Diligent(watched, "a", 1, order)
        for _ in range(2):
            await asyncio.sleep(0)
        assert (order, len(told)) == (["a"], 1)

    asyncio.run(work())
