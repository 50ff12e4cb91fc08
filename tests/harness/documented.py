"""The commands of a page of the documents, run as they stand there, on other ports."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

DOCUMENTS = Path(__file__).parents[2] / "docs"
MODULES = {"mongod": "mongod", "configsvr": "configsvr", "mongos": "mongos", "mongo": "shell"}
_PORT = r"\b2[78]\d{3}\b"


def blocks(page: Path) -> list[str]:
    """The indented blocks of the page."""
    text = page.read_text()
    return [block.replace("\n    ", "\n").strip() for block in re.findall(r"(?:\n    .+)+", text)]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class CarriedOut:
    """What has been run. `ports`: those that stand for the ones of the page; `output`: what was printed."""

    def __init__(self, ports: dict[str, int], output: str) -> None:
        self.ports = ports
        self.output = output


class Shell:
    """The system's shell in a directory, with our executables. `ports`: those that stand for the ones of the page."""

    def __init__(self, directory: Path, ports: dict[str, int]) -> None:
        self.ports = ports
        self._directory = directory
        self._named = {str(port): name for name, port in ports.items()}
        executables = [f'{name}() {{ "{sys.executable}" -m {module} "$@"; }}' for name, module in MODULES.items()]
        self._executables = "\n".join(executables)
        # What a process that is killed leaves among the temporary files goes with the directory.
        self._environment = {**os.environ, "PYTHONPATH": str(DOCUMENTS.parent), "TMPDIR": str(directory)}

    def run(self, script: str, typed: str = "") -> str:
        """What commands of the page print, with its ports, where they read `typed`; they must not fail."""
        given, read = (re.sub(_PORT, lambda found: str(self.ports[found[0]]), text) for text in (script, typed))
        done = subprocess.run(
            ["bash", "-ec", f"{self._executables}\n{given}"], cwd=self._directory, env=self._environment, input=read,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return re.sub(r"\b\d{4,5}\b", lambda found: self._named.get(found[0], found[0]), done.stdout)


@contextlib.contextmanager
def shell_of_page(directory: Path, texts: Iterable[str]) -> Iterator[Shell]:
    """A shell for what the page has typed. Nothing runs on afterwards."""
    names = sorted({name for text in texts for name in re.findall(_PORT, text)})
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    try:
        yield Shell(directory, ports)
    finally:
        for log in directory.glob("*.log"):
            for pid in set(re.findall(r'"Waiting for connections".*?"pid":(\d+)', log.read_text())):
                os.kill(int(pid), signal.SIGKILL)
        for port in ports.values():
            # What a server that is killed leaves.
            Path(f"/tmp/mongodb-{port}.sock").unlink(missing_ok=True)


@contextlib.contextmanager
def carried_out(directory: Path, block: str) -> Iterator[CarriedOut]:
    """What a block's commands make. Nothing runs on afterwards."""
    with shell_of_page(directory, [block]) as shell:
        yield CarriedOut(shell.ports, shell.run(block))
