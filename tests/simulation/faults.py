"""What goes wrong: single faults, and schedules of a few of them around dangerous moments.

Every fault ends by itself or is ended by `Nemesis.end`; after that everything must come to rest.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.process import Incarnation, Machine
from tests.simulation.world import World

MOMENTS = ("candidate", "voter", "leader", "primary", "follower", "undo", "rollback")
COPYING = ("copying", "copying", "cloned", "applying", "secondary", "primary", "undo")
"""Where initial syncs can go wrong."""


class Nemesis:
    """Does harm to some machines of a world. `clients`: names of hosts that partitions may cut off with a side."""

    def __init__(self, world: World, machines: Sequence[Machine], primary: Callable[[], Machine | None]) -> None:
        self._world = world
        self._machines = list(machines)
        self._primary = primary
        self._dice: random.Random = world.fault_dice
        self._waiting: list[tuple[str, float, Callable[[Machine], None]]] = []
        self.done = 0
        self.over = False
        self.kinds: dict[str, Callable[[Machine], None]] = {
            "kill": self.kill,
            "power": self.lose_power,
            "power of all": self.lose_all_power,
            "isolate": self.isolate,
            "halves": self.halves,
            "one way": self.one_way,
            "bridge": self.bridge,
            "pause": self.pause,
            "die at write": self.die_at_write,
            "slow disk": self.slow_disk,
            "slow link": self.slow_link,
            "clock": self.jump_clock,
            "resets": self.resets,
            "blink": self.blink,
            "disk full": self.fill_disk,
            "disk error": self.break_disk,
            "write error": self.break_writes,
            "duplicates": self.duplicate,
            "clock far": self.jump_clock_far,
        }

    # When

    async def run(self, seconds: float, kinds: Sequence[str], *, count: int, moments: Sequence[str] = MOMENTS) -> None:
        """So many faults of these kinds within the time: some at any moment, most at a dangerous one."""
        dice = self._dice
        for _ in range(count):
            await asyncio.sleep(dice.uniform(0.2, 1.0) * seconds / count)
            kind = dice.choice(kinds)
            if dice.random() < 0.5:
                self.strike(kind, self._someone())
            else:
                moment, delay = dice.choice(moments), dice.choice((0.0, 0.0002, 0.001, 0.003, 0.02))
                self._waiting.append((moment, delay, self.kinds[kind]))
                # What makes the moment come.
                self.strike(dice.choice(("isolate", "kill", "pause", "power")), self._primary() or self._someone())
        await asyncio.sleep(dice.uniform(0.1, 0.5) * seconds / count)

    def moment(self, process: Incarnation, name: str) -> None:
        """Called by those who watch the members."""
        for waiting in list(self._waiting):
            wanted, delay, act = waiting
            if wanted == name and not self.over:
                self._waiting.remove(waiting)
                self._world.after(delay, self._act, act, process.machine)

    def at_moment(self, moment: str, kind: str) -> None:
        """A fault of that kind when the moment comes, on whom it comes to."""
        self._waiting.append((moment, self._dice.choice((0.0, 0.0005, 0.005, 0.02, 0.1)), self.kinds[kind]))

    def strike(self, kind: str, machine: Machine) -> None:
        """A fault of that kind on that machine, now."""
        self._act(self.kinds[kind], machine)

    def _act(self, act: Callable[[Machine], None], machine: Machine) -> None:
        if not self.over:
            self.done += 1
            act(machine)

    def end(self) -> None:
        """No fault any more: all links whole, all machines up."""
        self.over = True
        world = self._world
        self._waiting.clear()
        world.tell("nemesis", "ends: everything is healed and started")
        network = world.network
        network.slow.clear()
        network.stall_probability = network.reset_probability = network.duplicate_probability = 0.0
        network.heal()
        for machine in self._machines:
            machine.disk.full = machine.disk.failing = False
            machine.disk.seconds = 0.0005
            machine.disk.die_at_write = machine.disk.fail_at_write = None
            if machine.process is not None and machine.process.alive:
                machine.process.resume()
            machine.start()

    def _someone(self) -> Machine:
        """A machine; the primary's more often than others."""
        primary = self._primary()
        if primary is not None and self._dice.random() < 0.5:
            return primary
        return self._dice.choice(self._machines)

    def _later(self, least: float, most: float, act: Callable[..., Any], *arguments: Any) -> None:
        def unless_over() -> None:
            if not self.over:
                act(*arguments)

        self._world.after(self._dice.uniform(least, most), unless_over)

    def _tell(self, what: str) -> None:
        self._world.tell("nemesis", what)

    # What

    def kill(self, machine: Machine) -> None:
        machine.kill()
        self._later(0.02, 2.5, machine.start)

    def lose_power(self, machine: Machine) -> None:
        machine.lose_power()
        self._later(0.05, 2.5, machine.start)

    def blink(self, machine: Machine) -> None:
        """The power goes and comes back before anybody has given the machine up."""
        machine.lose_power()
        self._later(0.002, 0.3, machine.start)

    def lose_all_power(self, _machine: Machine) -> None:
        for each in self._machines:
            each.lose_power("the power goes everywhere")
            self._later(0.02, 1.0, each.start)

    def isolate(self, machine: Machine) -> None:
        others = [name for name in self._world.machines if name != machine.name]
        if self._dice.random() < 0.5:
            # Its clients stay with it.
            others = [name for name in others if not name.startswith("client")]
        self._tell(f"cuts {machine.name} off")
        self._world.network.partition([[machine.name], others])
        self._later(0.3, 3.5, self._heal)

    def halves(self, machine: Machine) -> None:
        names = [each.name for each in self._machines]
        self._dice.shuffle(names)
        at = self._dice.randint(1, max(len(names) // 2, 1))
        self._tell(f"separates {names[:at]} from {names[at:]}")
        self._world.network.partition([names[:at], names[at:]])
        self._later(0.3, 3.5, self._heal)

    def one_way(self, machine: Machine) -> None:
        others = [each.name for each in self._machines if each is not machine]
        outward = self._dice.random() < 0.5
        self._tell(f"lets nothing {'out of' if outward else 'in to'} {machine.name}")
        for other in others:
            self._world.network.cut.add((machine.name, other) if outward else (other, machine.name))
        self._later(0.3, 3.0, self._heal)

    def bridge(self, machine: Machine) -> None:
        """The others do not see each other, all see this one."""
        others = [each.name for each in self._machines if each is not machine]
        self._tell(f"leaves {machine.name} as the bridge between {others}")
        half = len(others) // 2
        self._world.network.partition([others[:half], others[half:]])
        self._later(0.3, 3.5, self._heal)

    def _heal(self) -> None:
        if self._world.network.cut:
            self._tell("heals the network")
            self._world.network.heal()

    def pause(self, machine: Machine) -> None:
        process = machine.process
        if process is not None and process.alive and not process.paused:
            process.pause()
            self._later(0.1, 3.0, process.resume)

    def die_at_write(self, machine: Machine) -> None:
        machine.restart_after = self._dice.uniform(0.02, 1.5)
        machine.disk.die_at_write = machine.disk.writes + self._dice.choice((1, 1, 2, 3, 5, 10, 30))
        self._tell(f"will end {machine.name} at write {machine.disk.die_at_write}, now {machine.disk.writes}")

    def slow_disk(self, machine: Machine) -> None:
        seconds = self._dice.choice((0.02, 0.1, 0.5))
        self._tell(f"slows the disk of {machine.name}: {seconds} s a flush")
        machine.disk.seconds = seconds
        self._later(0.5, 3.0, setattr, machine.disk, "seconds", 0.0005)

    def fill_disk(self, machine: Machine) -> None:
        """For longer than any election takes."""
        machine.disk.full = True
        self._tell(f"fills the disk of {machine.name}")
        self._later(3.0, 6.0, setattr, machine.disk, "full", False)

    def break_disk(self, machine: Machine) -> None:
        """Flushes fail until the process has ended by that."""
        machine.disk.failing = machine.expected_to_break = True
        self._tell(f"lets flushes of {machine.name} fail")
        self._later(0.1, 1.5, setattr, machine.disk, "failing", False)

    def break_writes(self, machine: Machine) -> None:
        """One of the next writes fails, and all after it, until the process has ended by that."""
        machine.expected_to_break = True
        machine.disk.fail_at_write = machine.disk.writes + self._dice.choice((1, 1, 2, 3, 5, 10, 30))
        self._tell(f"will let write {machine.disk.fail_at_write} of {machine.name} fail, now {machine.disk.writes}")

    def slow_link(self, machine: Machine) -> None:
        seconds = self._dice.choice((0.02, 0.1, 0.6))
        self._tell(f"slows what leaves {machine.name} by {seconds} s")
        for other in self._machines:
            self._world.network.slow[machine.name, other.name] = seconds
        self._later(0.5, 3.0, self._world.network.slow.clear)

    def jump_clock(self, machine: Machine) -> None:
        machine.wall_offset += self._dice.choice((-50.0, -3.0, -0.5, 0.5, 3.0, 50.0))
        machine.drift = self._dice.choice((0.0, 0.001, -0.001))
        self._tell(f"sets the wall clock of {machine.name} to {machine.wall_offset:+} s")

    def jump_clock_far(self, machine: Machine) -> None:
        """By hours, and it goes on too fast or too slowly."""
        machine.wall_offset += self._dice.choice((-7200.0, -600.0, 600.0, 7200.0)) * self._dice.random()
        machine.drift = self._dice.choice((0.0, 0.05, -0.05))
        self._tell(f"sets the wall clock of {machine.name} to {machine.wall_offset:+.1f} s, drift {machine.drift}")

    def duplicate(self, _machine: Machine) -> None:
        self._world.network.duplicate_probability = self._dice.choice((0.05, 0.3))
        self._tell("lets commands come twice")
        self._later(0.5, 2.5, setattr, self._world.network, "duplicate_probability", 0.0)

    def resets(self, _machine: Machine) -> None:
        network = self._world.network
        network.reset_probability, network.stall_probability = 0.01, 0.05
        self._tell("resets and stalls connections")

        def end() -> None:
            network.reset_probability = network.stall_probability = 0.0

        self._later(0.3, 2.0, end)
