"""Machines, and the processes of the shipping programs that run on them.

A process is started by the same coroutine as the real one (`docstore.node.process.main.serve`, `mongos.process.serve`)
from the same options. Killing it is what SIGKILL is: none of its callbacks runs again, its connections are closed by
the host, its engine takes nothing more; nothing of it runs `finally`. A loss of power silences the host as well
and takes what the disk had not synced. What a process leaves on its machine's disk is what the next one finds.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.net.process import Process, StartError
from docstore.node.process.repair import is_member, mend_store, require_copy
from docstore.widecolumn.node.storage_mode import WideColumnMode
from tests.simulation.disk import Disk
from tests.simulation.interpreter import CURRENT
from tests.simulation.loop import Killed

if TYPE_CHECKING:
    from tests.simulation.world import World

Program = Callable[["Incarnation"], Awaitable[None]]


class Incarnation:
    """One process from its start to its end: whose callback runs, by which clock, and whether it still lives."""

    def __init__(self, world: World, machine: Machine, name: str) -> None:
        self.world = world
        self.machine = machine
        self.name = name
        self.alive = True
        self.paused = False
        self.resumed_at = 0.0
        self.is_ready = False
        self.held: deque[Any] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._pruned_at = 64
        self.control: Process
        """What its program knows of its process."""
        self.ended: str | None = None
        self.main: asyncio.Task[None] | None = None
        self.seen: Any = None
        """What the invariants last saw."""
        self.node: Any = None
        """A data node's `NodeProcess`, a router's `Router`, once there is one."""
        self.listener: Callable[[], Any] = lambda: getattr(self.node, "listener", None)
        """What answers requests, once there is one."""

    # Clock

    def monotonic(self) -> float:
        world = self.world
        world.now += world.clock_seconds
        if world.hiccups and world.clock_dice.random() < world.hiccups:
            world.now += 0.009
        return world.now - self.machine.monotonic_origin

    def moment(self) -> float:
        """The monotonic clock, without the time that looking takes."""
        return self.world.now - self.machine.monotonic_origin

    def wall(self) -> float:
        return self.machine.wall()

    # Life

    def start(self, program: Program) -> None:
        """Run the program as this process."""

        async def run() -> None:
            self.control = _Control(self)
            try:
                await program(self)
                self._over("ended in good order")
            except StartError as error:
                self._over(f"cannot start: {error}")
            except asyncio.CancelledError:
                self._over("cancelled")
                raise
            except AssertionError as error:
                self.world.unhandled(self, "the program failed", error)
                self.die(error)
            except Exception as error:
                self.world.unhandled(self, "the program failed", error)
                self._over(f"failed: {error!r}")

        context = copy_context()
        context.run(CURRENT.set, self)
        self.main = self.world.loop.create_task(run(), name=self.name, context=context)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """A task of this process: referred to, so that nothing of it runs when the process is dead."""
        self._tasks.append(task)
        if len(self._tasks) > self._pruned_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._pruned_at = 2 * len(self._tasks) + 64

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Those under way."""
        return [task for task in self._tasks if not task.done()]

    def kill(self, why: str, *, silently: bool = False) -> None:
        """End at once."""
        if not self.alive:
            return
        self.alive = False
        self.held.clear()
        self.ended = why
        self.world.tell(self.name, f"dies: {why}")
        self.world.network.died(self, silently=silently)
        self.machine.disk.detach()
        self.world.graveyard.append(self)

    def die(self, error: BaseException) -> None:
        """A broken invariant: the process stops at once."""
        self.kill(f"broken invariant: {error}")
        self.machine.broke(error)
        raise Killed

    def pause(self) -> None:
        if not self.paused:
            self.paused = True
            self.world.tell(self.name, "is paused")

    def resume(self) -> None:
        if self.paused:
            self.paused, self.resumed_at = False, self.world.now
            self.world.tell(self.name, "goes on")
            self.world.loop.resume(self.held)

    def _over(self, why: str) -> None:
        if self.alive:
            self.kill(why)


class _Control(Process):
    """The process as its program knows it; nothing collects garbage."""

    def __init__(self, incarnation: Incarnation) -> None:
        super().__init__(incarnation.name, _Voice(incarnation))  # type: ignore[arg-type]
        self._garbage = _NoGarbage()  # type: ignore[assignment]


class _Voice:
    """What would be printed is told in the story."""

    def __init__(self, incarnation: Incarnation) -> None:
        self._incarnation = incarnation

    def ready(self, line: str) -> None:
        self._incarnation.is_ready = True
        self.say(line)

    def say(self, line: str) -> None:
        self._incarnation.world.tell(self._incarnation.name, line.partition(" pid=")[0])


class _NoGarbage:
    def start(self) -> None:
        """A schedule ends before there is much."""

    def stop(self) -> None:
        """See `start`."""


class Machine:
    """A host with a disk and clocks, and the program that it runs."""

    def __init__(self, world: World, name: str, dice: random.Random, root: Path, program: Program) -> None:
        self.world = world
        self.name = name
        self.disk = Disk(world, name, random.Random(dice.getrandbits(64)), root)
        self.monotonic_origin = -dice.uniform(10, 100_000)
        self.wall_offset = 0.0
        self.drift = 0.0
        self._program = program
        self._number = 0
        self.process: Incarnation | None = None
        self.checks: list[Callable[[Incarnation], None]] = []
        """Called after each step of its processes."""
        self.expected_to_break = False
        """Faults of this machine's disk may end its process."""
        self.restart_after: float | None = 0.5
        """How long after an unplanned end the process is started again."""

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def ready(self) -> bool:
        return self.process is not None and self.process.alive and self.process.is_ready

    def wall(self) -> float:
        world = self.world
        return world.wall_origin + world.now * (1.0 + self.drift) + self.wall_offset

    def start(self) -> None:
        """Start the program, if it does not run."""
        if self.running:
            return
        self._number += 1
        self.disk.fail_at_write = None
        self.world.network.power(self.name, on=True)
        name = self.name if self._number == 1 else f"{self.name}#{self._number}"
        self.process = Incarnation(self.world, self, name)
        self.process.start(self._program)

    def kill(self, why: str = "killed") -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill(why)

    def lose_power(self, why: str = "the power goes") -> None:
        """The host falls silent, and its disk keeps what was synced and perhaps some more."""
        if self.process is None or not self.process.alive:
            return
        self.world.network.power(self.name, on=False)
        self.process.kill(why, silently=True)
        self.world.tell(self.name, self.disk.lose_power())

    def wipe(self) -> None:
        """The process ends, and its disk is replaced by an empty one."""
        self.kill("its disk is lost")
        self.disk.wipe()
        self.world.tell(self.name, "has an empty disk")

    def repair(self, entries: int) -> None:
        """The process ends, its disk loses so many of the newest entries of the log although they were synced, with
        the documents that they inserted, and is repaired.
        """
        self.kill("its disk is damaged")
        lost = self.disk.damage(entries)
        store, _ = mend_store(self.disk.contents, WideColumnMode(), lambda losses: None)
        if is_member(store, ()):
            require_copy(store)
        self.disk.sync_all()
        self.world.tell(self.name, f"has a repaired disk, without {lost} entries of its log")

    def crash_now(self, why: str) -> None:
        """End inside the running callback, of power or by SIGKILL; whoever calls unwinds it with `Killed`."""
        if self.world.fault_dice.random() < 0.5:
            self.lose_power(f"the power goes {why}")
        else:
            self.kill(f"killed {why}")
        if self.restart_after is not None:
            self.world.after(self.restart_after, self.start)

    def broke(self, error: BaseException) -> None:
        """The process ended itself."""
        if not self.expected_to_break:
            self.world.fail(f"{self.name} ended itself: {error!r}", error)
        if self.restart_after is not None:
            self.world.after(self.restart_after, self.start)
