"""Progress of a long command, read by `currentOp` on a second connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from shell.bindings.screen import Screen
from shell.deployment import Deployment
from shell.greeting import Refused
from shell.wire_client import ConnectionLost, WireClient

WATCHED = frozenset((b"mapReduce", b"mapreduce", b"createIndexes", b"reIndex"))
DELAY = 0.5
"""Seconds that a command may take before there is a line about it."""
PAUSE = 0.3


class OperationWatcher(AbstractContextManager["OperationWatcher"]):
    """While the `with` block runs `command`, its progress is on the screen."""

    def __init__(self, deployment: Deployment, command: Mapping[str, Any], screen: Screen) -> None:
        self._deployment = deployment
        self._command = command
        self._name, self._target = next(iter(command.items()))
        self._database = command["$db"]
        self._screen = screen
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> OperationWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._screen.progress("", 0, 0)

    def _watch(self) -> None:
        started = time.monotonic()
        if self._done.wait(DELAY):
            return
        client = self._deployment.second_client()
        try:
            while True:
                reply = client.run_document({"currentOp": 1, "$db": "admin"})
                done, total, phase = progress_of(reply, self._name, self._target, self._database)
                if phase == "map":
                    total = total or self._documents(client)
                seconds = int(time.monotonic() - started)
                label = f"{self._name} {self._database}.{self._target} {phase or f'{seconds} s'}"
                self._screen.progress(label, done, total)
                if self._done.wait(PAUSE):
                    return
        except (ConnectionLost, Refused):
            return  # nothing is known about the command, then
        finally:
            client.close()

    def _documents(self, client: WireClient) -> int:
        """Return how many documents a map-reduce will map: all of the collection; 0 if a query or limit makes it
        unknown.
        """
        if self._command.get("query") or self._command.get("limit"):
            return 0
        reply = client.run_document({"count": self._target, "$db": self._database})
        return int(reply.get("n", 0))


def progress_of(reply: Mapping[str, Any], name: str, target: Any, database: str) -> tuple[int, int, str]:
    """Return (done, total, phase) of the operations in a `currentOp` reply that execute the command.

    On a router the shards' parts are added.
    """
    done = total = 0
    phase = ""
    for operation in reply.get("inprog", ()):
        command = operation.get("command", {})
        progress = operation.get("progress")
        first = next(iter(command.items()), ("", None))
        if progress is None or first[0].lower() != name.lower() or first[1] != target:
            continue
        if command.get("$db", database) != database:
            continue
        done += int(progress.get("done", 0))
        total += int(progress.get("total", 0))
        phase = str(operation.get("msg", "")).split(":", 1)[-1].strip()
    return done, total, phase
