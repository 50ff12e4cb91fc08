"""Clusters whose servers are forked from a process that has imported the executables.

Starting an interpreter and importing costs a second and a half of processor time a server, and the tests start
hundreds. What a forked server does is the same, and it is a process like any other: it is killed, stopped and started
again. None outlives the test process.
"""

from __future__ import annotations

import os
from typing import IO

from docstore.testing.launcher import Launcher
from scripts.deployment import Deployment

PROGRAMS = ("mongod", "configsvr", "mongos")


class ForkedDeployment(Deployment):
    """A `Deployment` of forked servers. `load` from another process sees them, but cannot start any."""

    def _run(self, program: str, arguments: list[str], sink: IO[bytes], environment: dict[str, str]) -> int:
        pid, descriptor = Launcher.shared(PROGRAMS).fork(
            program, arguments, sink.fileno(), sink.fileno(), {**os.environ, **environment}
        )
        os.close(descriptor)
        return pid
