"""What goes wrong in clusters: a fault when somebody comes to a dangerous moment, on whoever it hurts most."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.clients import quietly
from tests.simulation.faults import Nemesis
from tests.simulation.process import Incarnation, Machine
from tests.simulation.sharded import SimulatedCluster

VICTIMS = ("itself", "itself", "config primary", "other primary", "neighbour", "router")
DELAYS = (0.0, 0.0, 0.0003, 0.001, 0.003, 0.01, 0.05)


@dataclass(slots=True)
class _Plan:
    """`after` so many others of the same moment, and `delay` seconds."""

    moment: str
    after: int
    delay: float
    kind: str
    victim: str


class ClusterNemesis(Nemesis):
    """`plan` lays traps at moments of `tests.simulation.moments`; what any nemesis does it can do too."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        world = cluster.world
        super().__init__(world, cluster.machines, lambda: world.fault_dice.choice(cluster.sets).primary())
        self._cluster = cluster
        self._plans: list[_Plan] = []
        self.kinds["step down"] = self.step_down
        self.kinds["from its set"] = self.cut_from_its_set
        world.moments.append(self.come)
        for each in cluster.sets:
            each.invariants.listeners.append(self.moment)

    def plan(self, moments: Sequence[str], kinds: Sequence[str], count: int) -> None:
        """So many faults of these kinds at some of these moments."""
        dice = self._dice
        for _ in range(count):
            after, delay = dice.choice((0, 0, 1, 2, 4)), dice.choice(DELAYS)
            self._plans.append(_Plan(dice.choice(moments), after, delay, dice.choice(kinds), dice.choice(VICTIMS)))

    def come(self, process: Incarnation, moment: str) -> None:
        """Somebody has come to a moment."""
        if self.over:
            return
        for plan in [each for each in self._plans if each.moment == moment]:
            if plan.after:
                plan.after -= 1
                continue
            self._plans.remove(plan)
            self._world.after(plan.delay, self._carry_out, plan, process.machine)

    def _carry_out(self, plan: _Plan, machine: Machine) -> None:
        victim = self._victim(plan.victim, machine)
        if victim is not None and not self.over:
            self._tell(f"{plan.kind} of {victim.name} at: {plan.moment}")
            self.strike(plan.kind, victim)

    def _victim(self, who: str, machine: Machine) -> Machine | None:
        cluster = self._cluster
        mine = next((each for each in cluster.sets if machine in each.machines), None)
        match who:
            case "config primary":
                return cluster.config.primary()
            case "other primary":
                others = [each for each in cluster.shards.values() if each is not mine]
                return self._dice.choice(others).primary()
            case "neighbour" if mine is not None:
                return self._dice.choice([each for each in mine.machines if each is not machine] or [machine])
            case "router":
                return self._dice.choice(cluster.routers)
        return machine

    def step_down(self, machine: Machine) -> None:
        """A failover in which nobody dies."""
        command = {"replSetStepDown": 3, "secondaryCatchUpPeriodSecs": 1, "force": True}
        self._tell(f"asks {machine.name} to step down")
        self._world.own.keep(asyncio.ensure_future(quietly(self._cluster.config.command(machine, "admin", command))))

    def cut_from_its_set(self, machine: Machine) -> None:
        """All others still reach it: a primary goes on for a while with what no other member gets to know."""
        mine = next((each for each in self._cluster.sets if machine in each.machines), None)
        if mine is None:
            return
        self._tell(f"cuts {machine.name} off from the other members of {mine.name}")
        for other in mine.machines:
            if other is not machine:
                self._world.network.cut |= {(machine.name, other.name), (other.name, machine.name)}
        self._later(0.3, 4.0, self._heal)

    def end(self) -> None:
        self._plans.clear()
        super().end()
