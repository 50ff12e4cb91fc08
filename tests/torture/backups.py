"""Backups that are made again and again while everything goes on; each that says it is done must restore."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.checkers.history import Anomaly
from tests.torture.caller import World

_PROGRAM = "from docstore.backup.program import main; main()"
_PAUSE_SECONDS = 8.0
_CREATE_SECONDS = 120.0
_VERIFY_SECONDS = 300.0
DONE = 0
DAMAGED = 3
"""Done, but files of the repository had to be copied again: here nobody damages any."""


class BackupMaker:
    """Makes backups of a set, or of a cluster through its routers, into a repository in `directory`."""

    def __init__(self, world: World, addresses: Sequence[str], directory: Path) -> None:
        self._world = world
        self._uri = "mongodb://" + ",".join(addresses)
        self._repository = directory / "backups"
        self.made = 0
        self.anomalies: list[Anomaly] = []

    async def run(self) -> None:
        """Make one after the other; attempts that fail while members are away are no anomaly."""
        while not self._world.stopped:
            status, said = await self._tool("create", "--uri", self._uri, seconds=_CREATE_SECONDS)
            self._world.acts[f"backup {status}"] += 1
            self.made += status == DONE
            if status == DAMAGED:
                self.anomalies.append(Anomaly("damaged backup", said[-300:]))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def judge(self) -> list[Anomaly]:
        """Return what is wrong: the newest backup is restored and held against itself."""
        if self.made:
            status, said = await self._tool("verify", seconds=_VERIFY_SECONDS)
            if status != DONE:
                self.anomalies.append(Anomaly("damaged backup", f"verify ended with {status}: {said[-300:]}"))
        return self.anomalies

    async def _tool(self, verb: str, *arguments: str, seconds: float) -> tuple[int, str]:
        """Return (exit status, what was printed); status -1 for one that did not end in time."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, "backup", verb, str(self._repository), *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), seconds)
        except TimeoutError:
            process.kill()
            await process.wait()
            return -1, f"{verb} did not end in {seconds:.0f} s"
        return process.returncode or 0, output.decode(errors="replace")
