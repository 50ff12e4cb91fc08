"""One schedule: a scenario under one seed, in an interpreter that is forked off one in which the topology stands.

What is the same for every seed (the imports, the machines started, the set initiated) is done once under a fixed seed;
each schedule is a fork of that with dice of its own, and ends with `_exit`. So a schedule sees nothing of another one,
and nothing has to be taken down.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation import interpreter, programs
from tests.simulation.world import Broken, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`topology(world)` builds and starts what there is, `run(world, built)` is the schedule: it raises what it finds.

    `limit`: the most that it may take, in seconds of its time.
    """

    name: str
    what: str
    topology: Callable[[World], Coroutine[Any, Any, Any]]
    run: Callable[[World, Any], Coroutine[Any, Any, None]]
    limit: float = 300.0


@dataclass(slots=True)
class Result:
    """Of one schedule; `failure` is empty where nothing was found."""

    seed: int
    failure: str = ""
    itself: bool = False
    """It is the simulation that failed."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    steps: int = 0
    errors: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class Stage:
    """A topology that stands, off which schedules are forked. Close it when done."""

    def __init__(
        self, scenario: Scenario, *, story: bool = False, plant: Callable[[], None] | None = None, echo: bool = False
    ) -> None:
        self._scenario = scenario
        self._root = Path(tempfile.mkdtemp(prefix="simulation-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        # What routers have among the temporary files goes with the rest.
        self._temporary, tempfile.tempdir = tempfile.tempdir, str(self._root)
        gc.disable()
        logging.getLogger("docstore").setLevel(logging.CRITICAL)
        self._world = world = World(f"topology of {scenario.name}", self._root / "machines", story=story)
        world.print_story = echo
        programs.install(world)
        if story:
            programs.log_to_story(world)
        built: list[Any] = []

        async def build() -> None:
            built.append(await scenario.topology(world))

        try:
            world.run(build(), 120.0)
        except Broken as error:
            error.add_note("\n".join(world.errors))
            raise
        self._built = built[0]
        shutil.copytree(world.root, self._root / "pristine")
        if plant is not None:
            plant()

    def run(self, seed: int) -> Result:
        """The schedule of that seed, in a fork."""
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receiver)
            code = 1
            try:
                result = self._in_fork(seed)
                with os.fdopen(sender, "w") as pipe:
                    json.dump(asdict(result), pipe)
                code = 0
            finally:
                os._exit(code)
        os.close(sender)
        with os.fdopen(receiver) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        shutil.rmtree(self._world.root)
        shutil.copytree(self._root / "pristine", self._world.root)
        if not text:
            return Result(seed, "the schedule's interpreter died", itself=True)
        return Result(**json.loads(text))

    def _in_fork(self, seed: int) -> Result:
        world, scenario = self._world, self._scenario
        started, cpu, steps = world.now, interpreter.real_cpu(), world.loop.steps
        result = Result(seed)
        world.reseed(f"{scenario.name} {seed}")
        try:
            world.run(scenario.run(world, self._built), scenario.limit)
        except Broken as found:
            result.failure = str(found)
            cause = found.__cause__
            if cause is not None:
                result.errors = traceback.format_exception(cause)
        except BaseException as error:
            result.failure, result.itself = f"the simulation itself failed: {error!r}", True
            result.errors = traceback.format_exception(error)
        if result.failure:
            world.tell("BROKEN", result.failure)
        result.seconds = world.now - started
        result.cpu_seconds = interpreter.real_cpu() - cpu
        result.steps = world.loop.steps - steps
        result.errors += world.errors
        result.story = world.story or []
        result.counts = world.counts
        return result

    def close(self) -> None:
        tempfile.tempdir = self._temporary
        shutil.rmtree(self._root, ignore_errors=True)


def run_all(scenario: Scenario, seeds: Iterable[int], plant: Callable[[], None] | None = None) -> Iterator[Result]:
    """One schedule after the other."""
    stage = Stage(scenario, plant=plant)
    try:
        for seed in seeds:
            yield stage.run(seed)
    finally:
        stage.close()
