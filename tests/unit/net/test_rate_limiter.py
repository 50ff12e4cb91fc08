"""How fast new connections are let in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstore.commands.parameters import ParameterTable
from docstore.errors import Code, CommandError
from docstore.net.rate_limiter import Admission, RateLimiter, Timer
from tests.harness.dispatching import command
from tests.harness.serving import BareClient, run, serving, until

PING = command("ping", lambda context, arguments: {})
PREFIX = "ingressConnectionEstablishment"
CLIENT = "10.1.2.3:4000"


class FakeTimer:
    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Gate:
    """A limiter on a clock that stands still, and who was let in later."""

    def __init__(self, **settings: Any) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []
        self.limiter = RateLimiter(lambda: self.now, self._later)
        self.parameters = ParameterTable(self.limiter.parameters())
        self.let_in: list[str] = []
        for name, value in settings.items():
            self.put(name, value)

    def _later(self, seconds: float, action: Callable[[], None]) -> Timer:
        timer = FakeTimer(self.now + seconds, action)
        self.timers.append(timer)
        return timer

    def put(self, name: str, value: Any) -> None:
        self.parameters.assign(PREFIX + name, value)

    def come(self, name: str, remote: str = CLIENT) -> Admission:
        return self.limiter.ask(name, remote, lambda: self.let_in.append(name))

    def pass_time(self, seconds: float) -> None:
        """Let timers fire whose time comes."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.action is not None and timer.at <= end]:
            timer = min(due, key=lambda each: each.at)
            self.timers.remove(timer)
            self.now = timer.at
            assert timer.action is not None
            timer.action()
        self.now = end


def test_everybody_is_let_in_until_it_is_switched_on() -> None:
    gate = Gate(RatePerSec=1, BurstCapacitySecs=1)
    assert [gate.come(str(n)) for n in range(5)] == [Admission.ADMITTED] * 5


def test_it_lets_in_any_number_where_no_rate_was_set() -> None:
    gate = Gate(RateLimiterEnabled=True)
    assert [gate.come(str(n)) for n in range(50)] == [Admission.ADMITTED] * 50


def test_a_burst_is_let_in_then_some_wait_and_the_rest_is_refused() -> None:
    gate = Gate(RateLimiterEnabled=True, RatePerSec=2, BurstCapacitySecs=1.5, MaxQueueDepth=2)
    answers = [gate.come(name) for name in "abcdefg"]
    assert answers == [Admission.ADMITTED] * 3 + [Admission.QUEUED] * 2 + [Admission.REFUSED] * 2
    gate.pass_time(0.45)
    assert gate.let_in == []
    gate.pass_time(0.1)
    assert gate.let_in == ["d"]
    assert (gate.come("h"), gate.come("i")) == (Admission.QUEUED, Admission.REFUSED)
    gate.pass_time(1.0)
    assert gate.let_in == ["d", "e", "h"]
    gate.pass_time(60.0)
    assert [gate.come(name) for name in "jklm"] == [Admission.ADMITTED] * 3 + [Admission.QUEUED]


def test_who_leaves_the_queue_makes_room_for_another() -> None:
    gate = Gate(RateLimiterEnabled=True, RatePerSec=1, BurstCapacitySecs=1, MaxQueueDepth=1)
    assert [gate.come(name) for name in "ab"] == [Admission.ADMITTED, Admission.QUEUED]
    gate.limiter.leave("b")
    gate.limiter.leave("a")
    assert gate.come("c") is Admission.QUEUED
    gate.pass_time(1.0)
    assert gate.let_in == ["c"]


def test_addresses_that_are_exempt_never_wait() -> None:
    gate = Gate(RateLimiterEnabled=True, RatePerSec=1, BurstCapacitySecs=1)
    gate.put("RateLimiterBypass", {"ranges": ["192.168.0.0/16", "::1"]})
    assert gate.come("a") is Admission.ADMITTED
    assert gate.come("b") is Admission.REFUSED
    assert gate.come("c", "192.168.7.7:1") is Admission.ADMITTED
    assert gate.come("d", "::1:27017") is Admission.ADMITTED
    assert gate.come("e", "anonymous unix socket:27017") is Admission.REFUSED
    assert gate.parameters.get(f"{PREFIX}RateLimiterBypass") == {"ranges": ["192.168.0.0/16", "::1"]}


def test_a_change_counts_for_those_who_wait() -> None:
    gate = Gate(RateLimiterEnabled=True, RatePerSec=1, BurstCapacitySecs=1, MaxQueueDepth=5)
    assert [gate.come(name) for name in "abcd"] == [Admission.ADMITTED] + [Admission.QUEUED] * 3
    gate.put("RatePerSec", 2)
    assert gate.let_in == ["b", "c"]
    gate.put("RateLimiterEnabled", False)
    assert gate.let_in == ["b", "c", "d"]


def test_the_statistics_say_what_has_become_of_connections() -> None:
    gate = Gate(RateLimiterEnabled=True, RatePerSec=1, BurstCapacitySecs=1, MaxQueueDepth=3)
    gate.put("RateLimiterBypass", {"ranges": ["127.0.0.1"]})
    for name in "abcde":
        gate.come(name)
    gate.come("f", "127.0.0.1:1")
    gate.limiter.leave("d")
    gate.pass_time(1.0)
    assert gate.limiter.connections_document() == {
        "queuedForEstablishment": 1,
        "establishmentRateLimit": {"rejected": 1, "exempted": 1, "interruptedDueToClientDisconnect": 1},
    }
    assert gate.limiter.queue_document() == {
        "addedToQueue": 3,
        "removedFromQueue": 2,
        "interruptedInQueue": 1,
        "rejectedAdmissions": 1,
        "exemptedAdmissions": 1,
        "successfulAdmissions": 2,
        "attemptedAdmissions": 5,
        "averageTimeQueuedMicros": 1_000_000.0,
        "totalAvailableTokens": 0.0,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RatePerSec", 0),
        ("RatePerSec", "many"),
        ("RatePerSec", 2**31),
        ("BurstCapacitySecs", 0),
        ("BurstCapacitySecs", float("nan")),
        ("BurstCapacitySecs", []),
        ("MaxQueueDepth", -1),
        ("RateLimiterBypass", {"ranges": ["localhost"]}),
        ("RateLimiterBypass", {"ranges": [1]}),
        ("RateLimiterBypass", {"addresses": []}),
        ("RateLimiterBypass", "127.0.0.1"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_change_nothing(name: str, value: Any) -> None:
    gate = Gate()
    was = gate.parameters.get(PREFIX + name)
    with pytest.raises(CommandError) as caught:
        gate.put(name, value)
    assert caught.value.code == Code.BadValue
    assert gate.parameters.get(PREFIX + name) == was


def test_a_connection_that_waits_is_answered_when_its_turn_comes() -> None:
    async def scenario() -> None:
        async with serving(PING) as listener:
            parameters = listener.dispatcher.services.parameters
            first = await BareClient.connect(listener)
            assert (await first.ask({"ping": 1}))["ok"] == 1.0
            for name, value in (("RatePerSec", 1), ("BurstCapacitySecs", 1), ("MaxQueueDepth", 1)):
                parameters.assign(PREFIX + name, value)
            parameters.assign(f"{PREFIX}RateLimiterEnabled", True)
            second, third = await BareClient.connect(listener), await BareClient.connect(listener)
            await second.send({"ping": 1})
            assert (await second.receive()).body
            await third.send({"ping": 1})
            await until(lambda: listener.statistics().bytes_in > 0 and len(listener.connections) == 3)
            requests = listener.statistics().requests
            assert await (await BareClient.connect(listener)).closed()
            assert (await first.ask({"ping": 1}))["ok"] == 1.0
            assert listener.statistics().requests == requests + 1
            parameters.assign(f"{PREFIX}RateLimiterEnabled", False)
            assert (await third.receive()).body
            for client in (first, second, third):
                await client.close()

    run(scenario())


def test_a_queued_connection_that_goes_is_forgotten() -> None:
    async def scenario() -> None:
        async with serving(PING) as listener:
            parameters = listener.dispatcher.services.parameters
            for name, value in (("RatePerSec", 1), ("BurstCapacitySecs", 1), ("MaxQueueDepth", 1)):
                parameters.assign(PREFIX + name, value)
            parameters.assign(f"{PREFIX}RateLimiterEnabled", True)
            first, second = await BareClient.connect(listener), await BareClient.connect(listener)
            limiter = listener.statistics().rate_limiter
            await until(lambda: limiter.connections_document()["queuedForEstablishment"] == 1)
            await second.close()
            await until(lambda: limiter.connections_document()["queuedForEstablishment"] == 0)
            assert limiter.queue_document()["interruptedInQueue"] == 1
            await first.close()

    run(scenario())
