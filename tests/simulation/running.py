"""Running schedules from a test: in an interpreter of their own, whose clock and dice are replaced first of all."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
_COMMAND = [sys.executable, str(ROOT / "scripts" / "simulate.py")]


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run of `scripts/simulate`."""

    status: int
    printed: str


def simulate_afresh(*arguments: str) -> Ran:
    """`scripts/simulate`, with one job, as somebody who replays a seed starts it."""
    command = [*_COMMAND, "--jobs", "1", *arguments]
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=ROOT
    )  # fmt: skip
    return Ran(ran.returncode, ran.stdout)


class Simulator:
    """An interpreter that has imported the programs once, and runs each command in a fork of itself."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [*_COMMAND, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The end of its input is its end; a fork that runs still is not awaited.
        self._process.communicate()

    def simulate(self, *arguments: str) -> Ran:
        """`scripts/simulate`, with one job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(["--jobs", "1", *arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the simulator has ended"
        return Ran(*json.loads(answer))

    def break_nothing(self, scenario: str, count: int) -> None:
        """So many schedules of seeds that were never tried before."""
        first = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
        seeds = f"{first}-{first + count - 1}"
        ran = self.simulate("--scenario", scenario, "--seeds", seeds)
        assert ran.status == 0, f"seeds {seeds} of {scenario}:\n{ran.printed}"
