"""Hunting planted bugs: each in an interpreter of its own, schedule after schedule until one of them is broken."""

from __future__ import annotations

import json
import os
import selectors
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from tests.simulation import interpreter
from tests.simulation.plants import PLANTS
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.schedule import Stage


@dataclass(slots=True)
class Hunt:
    """What came of one plant: `seed` is that of the schedule that caught it, None where none of those `tried` did."""

    plant: str
    seed: int | None = None
    tried: int = 0
    said: str = ""
    cpu_seconds: float = 0.0

    def told(self) -> str:
        """As a line."""
        where = PLANTS[self.plant].scenario
        found = "NOT CAUGHT" if self.seed is None else f"seed {self.seed}: {self.said[:160]}"
        return f"{self.plant:56} {where:12} {self.tried:3} schedules, {self.cpu_seconds:5.1f} CPU s, {found}"


def hunt(name: str, seeds: Iterable[int]) -> Hunt:
    """Try one plant, in this interpreter, which is spoiled by it."""
    plant, result = PLANTS[name], Hunt(name)
    stage = Stage(SCENARIOS[plant.scenario], plant=plant.apply)
    try:
        for seed in seeds:
            ran = stage.run(seed)
            result.tried += 1
            result.cpu_seconds += ran.cpu_seconds
            # A checker must have said it: a simulation that fails itself proves nothing.
            if ran.failure and not ran.itself:
                result.seed, result.said = seed, ran.failure.splitlines()[0]
                break
    finally:
        stage.close()
    result.cpu_seconds += interpreter.real_cpu()
    return result


def hunt_all(names: Iterable[str], seeds: range, jobs: int) -> Iterator[Hunt]:
    """All of them, so many side by side; the results as they come."""
    waiting = iter(names)
    running: dict[int, tuple[int, bytes]] = {}
    with selectors.DefaultSelector() as selector:

        def begin() -> None:
            name = next(waiting, None)
            if name is None:
                return
            receiver, child = _forked(name, seeds)
            running[receiver] = (child, b"")
            selector.register(receiver, selectors.EVENT_READ)

        try:
            for _ in range(max(jobs, 1)):
                begin()
            while running:
                for key, _ in selector.select():
                    child, text = running[key.fd]
                    if data := os.read(key.fd, 1 << 16):
                        running[key.fd] = (child, text + data)
                        continue
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del running[key.fd]
                    os.waitpid(child, 0)
                    begin()
                    yield Hunt(**json.loads(text))
        finally:
            for child, _ in running.values():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)


def _forked(name: str, seeds: range) -> tuple[int, int]:
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        try:
            with os.fdopen(sender, "w") as pipe:
                json.dump(asdict(hunt(name, seeds)), pipe)
        finally:
            os._exit(0)
    os.close(sender)
    return receiver, child
