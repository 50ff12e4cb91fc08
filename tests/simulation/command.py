"""`scripts/simulate`: runs schedules, says how to replay one that fails, and runs the planted bugs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.simulation import interpreter
from tests.simulation.hunting import hunt_all
from tests.simulation.plants import PLANTS
from tests.simulation.plants.plant import Plant
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.schedule import Result, Scenario, Stage

SCHEDULES_PER_PLANT = 300


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.serve:
        _serve()
        return
    if options.list:
        _list()
        return
    if options.scenario not in (None, *SCENARIOS) or options.plant not in (None, *PLANTS):
        sys.exit("no such scenario or plant: see --list")
    if options.plants:
        sys.exit(1 if _plants(options) else 0)
    first, last = _seeds(options.seeds or "1-100")
    plant = PLANTS[options.plant] if options.plant else None
    names = [options.scenario] if options.scenario else [plant.scenario] if plant is not None else list(SCENARIOS)
    failed = 0
    for name in names:
        failed += _run(SCENARIOS[name], range(first, last + 1), plant, options)
    sys.exit(1 if failed else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", help="A-B, or one; one alone is told as a story; 1-100, and 1-300 for plants")
    parser.add_argument("--scenario", help="one scenario; all of them without")
    parser.add_argument("--plant", help="with this bug planted")
    parser.add_argument("--plants", action="store_true", help="each planted bug, until it is caught")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="scenarios and plants")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--quiet", action="store_true", help="no story of a single seed")
    parser.add_argument("--serve", action="store_true", help="run what each line of input says (tests do)")
    return parser


def _serve() -> None:
    """Read a list of arguments in JSON from each line, run it in a fork, and answer with a line of JSON: the exit
    status, and what was printed. So the programs are imported once.
    """
    # A schedule is the same wherever its objects are in memory: those of a replay lie elsewhere.
    ballast: list[object] = [[number] for number in range(12_345)]
    for line in sys.stdin:
        ballast += [[number] for number in range(777)]
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(sender, 1)
            os.dup2(sender, 2)
            os.close(receiver)
            os.close(sender)
            os._exit(_status(json.loads(line)))
        os.close(sender)
        with os.fdopen(receiver) as pipe:
            printed = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, printed]), flush=True)


def _status(arguments: list[str]) -> int:
    """Run them; return the exit status."""
    try:
        main(arguments)
        return 0
    except SystemExit as end:
        if not isinstance(end.code, str):
            return int(end.code or 0)
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _seeds(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _list() -> None:
    for scenario in SCENARIOS.values():
        print(f"scenario {scenario.name:20} {scenario.what}")
    for plant in PLANTS.values():
        print(f"plant    {plant.name:44} ({plant.scenario}) {plant.function}")


def commit() -> str:
    """The commit whose code this is; marked where files differ from it."""
    root = Path(__file__).resolve().parents[2]
    named = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=root, capture_output=True, text=True, check=False
    )
    return named.stdout.strip() or "unknown"


def _run(scenario: Scenario, seeds: range, plant: Plant | None, options: argparse.Namespace) -> int:
    """How many schedules failed."""
    story = len(seeds) == 1 and not options.quiet
    began = interpreter.real_monotonic()
    failed, count, cpu, totals = 0, 0, 0.0, {}
    for result in _results(scenario, seeds, plant, options.jobs, story=story):
        count += 1
        cpu += result.cpu_seconds
        for name, number in result.counts.items():
            totals[name] = totals.get(name, 0) + number
        if result.failure:
            failed += 1
            _report(scenario, result, plant)
            if not options.keep_going:
                break
    print(
        f"{scenario.name}: {count} schedules, {failed} failed, {interpreter.real_monotonic() - began:.1f} s, "
        f"{cpu / max(count, 1):.3f} CPU seconds each; "
        + ", ".join(f"{number / max(count, 1):.1f} {name}" for name, number in totals.items()),
        flush=True,
    )
    return failed


def _report(scenario: Scenario, result: Result, plant: Plant | None) -> None:
    planted = f" --plant {plant.name}" if plant is not None else ""
    print(f"FAILED seed {result.seed} of {scenario.name} at {commit()}: {result.failure}")
    for line in result.errors[-3:]:
        print("   ", line.rstrip())
    print(f"    again: scripts/simulate --scenario {scenario.name} --seeds {result.seed}{planted}", flush=True)


def _results(
    scenario: Scenario, seeds: range, plant: Plant | None, jobs: int, *, story: bool = False
) -> Iterator[Result]:
    """The results, from several interpreters side by side."""
    jobs = max(1, min(jobs, len(seeds)))
    if jobs == 1:
        yield from _in_turn(scenario, seeds, plant, story=story)
        return
    with selectors.DefaultSelector() as selector:
        children = []
        for job in range(jobs):
            receiver, sender = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(receiver)
                with os.fdopen(sender, "w") as pipe:
                    for result in _in_turn(scenario, seeds[job::jobs], plant):
                        pipe.write(json.dumps(asdict(result)) + "\n")
                        pipe.flush()
                os._exit(0)
            os.close(sender)
            children.append(child)
            selector.register(receiver, selectors.EVENT_READ, b"")
        try:
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, 1 << 20)
                    if not data:
                        selector.unregister(key.fd)
                        os.close(key.fd)
                        continue
                    *lines, rest = (key.data + data).split(b"\n")
                    selector.modify(key.fd, selectors.EVENT_READ, rest)
                    for line in lines:
                        yield Result(**json.loads(line))
        finally:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)


def _in_turn(scenario: Scenario, seeds: range, plant: Plant | None, *, story: bool = False) -> Iterator[Result]:
    stage = Stage(scenario, story=story, echo=story, plant=None if plant is None else plant.apply)
    try:
        for seed in seeds:
            yield stage.run(seed)
    finally:
        stage.close()


def _plants(options: argparse.Namespace) -> int:
    """How many plants were not caught."""
    first, last = _seeds(options.seeds or f"1-{SCHEDULES_PER_PLANT}")
    began, hunts = interpreter.real_monotonic(), []
    for each in hunt_all(PLANTS, range(first, last + 1), options.jobs):
        hunts.append(each)
        print(each.told(), flush=True)
    caught = [each for each in hunts if each.seed is not None]
    print(
        f"{len(caught)} of {len(PLANTS)} caught, after {sum(each.tried for each in caught) / max(len(caught), 1):.1f} "
        f"schedules on average; {sum(each.cpu_seconds for each in hunts):.0f} CPU seconds, "
        f"{interpreter.real_monotonic() - began:.0f} s"
    )
    return len(PLANTS) - len(caught)


if interpreter.real_monotonic is time.monotonic:
    raise ImportError("the interpreter must be taken over first: run scripts/simulate")
