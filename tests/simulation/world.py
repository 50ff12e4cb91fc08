"""Everything that one schedule consists of: virtual time, dice, machines, the network between them, and the story.

One seed decides all. Several generators stand on it, so that what clients do does not shift when the network draws once
more: `entropy` (what the product draws), `fault_dice`, `client_dice`, those of the network and of each disk.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.simulation import interpreter
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.process import Incarnation, Machine, Program

WALL_ORIGIN = 1_700_000_000.0


class Broken(AssertionError):
    """What the simulation found wrong."""


class _OwnClock:
    """Of the simulation itself."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now

    moment = monotonic

    def wall(self) -> float:
        return self._world.wall_origin + self._world.now


class _Own:
    """Keeps the simulation's own tasks."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []

    def keep(self, task: asyncio.Task[Any]) -> None:
        self.tasks.append(task)


class World:
    """One at a time in an interpreter. `root`: a directory for the machines' files; `story`: keep what happens."""

    def __init__(self, seed: str, root: Path, *, story: bool) -> None:
        self.now = 0.0
        self.wall_origin = WALL_ORIGIN
        self.clock_seconds = 5e-6
        """What a look at the clock takes."""
        self.hiccups = 0.0
        """How many of these looks find that a slice of long work is over."""
        self.root = root
        self.clock = _OwnClock(self)
        self.own = _Own()
        self.loop = SimulatedLoop(self)
        self.machines: dict[str, Machine] = {}
        self.graveyard: list[Incarnation] = []
        self.story: list[str] | None = [] if story else None
        self.print_story = False
        self.failure: tuple[str, BaseException | None] | None = None
        self.moments: list[Callable[[Incarnation, str], None]] = []
        """Called with what a process has come to, in the step in which it does (`tests.simulation.moments`)."""
        self.errors: list[str] = []
        self.counts: dict[str, int] = {}
        """What happened how often, for reports."""
        self._context = contextvars.copy_context()
        self.reseed(seed)
        self.network = Network(self, self.network_dice)
        interpreter.enter(self)
        interpreter.seed_identifiers(self)

    def reseed(self, seed: str) -> None:
        """From here on the dice are those of that seed."""
        source = random.Random(seed)
        self.entropy = random.Random(source.getrandbits(64))
        self.clock_dice = random.Random(source.getrandbits(64))
        self.fault_dice = random.Random(source.getrandbits(64))
        self.client_dice = random.Random(source.getrandbits(64))
        self.network_dice = random.Random(source.getrandbits(64))
        for machine in self.machines.values():
            machine.disk.dice = random.Random(source.getrandbits(64))
        if self.machines:
            self.network.dice = self.network_dice
            interpreter.seed_identifiers(self)

    # Building

    def machine(self, name: str, program: Program) -> Machine:
        made = Machine(self, name, self.fault_dice, self.root, program)
        self.machines[name] = made
        return made

    # Time

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> None:
        """A callback of the simulation itself, at a moment of the world's time."""
        self.loop.call_in(when - self.now, callback, args, self._context.copy())

    def after(self, seconds: float, callback: Callable[..., Any], *args: Any) -> None:
        self.loop.call_in(seconds, callback, args, self._context.copy())

    def run(self, scenario: Coroutine[Any, Any, None], limit: float) -> None:
        """Carry a scenario out to its end. Errors: what it raises; `Broken` when time runs out or something failed."""
        task = self.loop.create_task(scenario, context=self._context.copy())
        end = self.now + limit
        if not self.loop.run_until(task, end) and self.failure is None:
            where = "".join(traceback.format_stack(task.get_stack(limit=1)[0])[-1:]) if task.get_stack() else ""
            raise Broken(f"the scenario has not come to its end in {limit:g} s of its time; it waits at\n{where}")
        if self.failure is not None:
            message, error = self.failure
            raise Broken(message) from error
        task.result()

    def after_step(self, owner: Incarnation | None) -> None:
        """Something ran for that process."""
        if owner is not None and owner.alive:
            for check in owner.machine.checks:
                check(owner)

    # What happens

    def tell(self, who: str, what: str) -> None:
        """A line of the story."""
        if self.story is not None:
            line = f"{self.now:10.4f}  {who:<8} {what}"
            self.story.append(line)
            if self.print_story:
                os.write(1, f"{line}\n".encode())

    def fail(self, message: str, error: BaseException | None = None) -> None:
        """Something is wrong: the schedule ends with this step."""
        if self.failure is None:
            self.failure = (message, error)
            self.tell("BROKEN", message)

    def unhandled(self, owner: Incarnation | None, message: str, error: BaseException | None) -> None:
        """An error that no code of a process was prepared for."""
        who = "world" if owner is None else owner.name
        self.tell(who, f"unhandled: {message}: {error!r}")
        self.errors.append(f"{who}: {message}: {error!r}")
        if owner is None:
            self.fail(f"the simulation itself: {message}: {error!r}", error)
