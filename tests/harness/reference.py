"""A real mongod to compare with, where `DOCSTORE_REFERENCE` names one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.deployment import places_of, unused_port
from tests.harness.waiting import wait_until

_SHOWN = 3000
"""As much of the end of its output is shown when it does not start."""


class ReferenceEnded(Exception):
    """The real server did not start; the message says what it printed."""


@contextlib.contextmanager
def reference_server(directory: Path, *arguments: str) -> Iterator[int]:
    """The port of a real mongod on loopback that answers; killed at the end. Skips the test where there is none.
    Errors: ReferenceEnded."""
    program = os.environ.get("DOCSTORE_REFERENCE")
    if program is None:
        pytest.skip("DOCSTORE_REFERENCE names no real mongod")
    port = unused_port()
    command = [program, *places_of(directory, port), *arguments]
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_until(lambda: accepts(port) or process.poll() is not None, 30)
        if process.poll() is not None:
            raise ReferenceEnded((directory / "output").read_text(errors="replace")[-_SHOWN:])
        yield port
    finally:
        process.kill()
        process.wait()


def accepts(port: int) -> bool:
    """Whether something listens on the port."""
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False
