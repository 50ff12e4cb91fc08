"""The host function: requests of JavaScript to Python, run on the isolate's thread.

JavaScript has written a document into its output buffer and numbers into `control` (see prelude/host.js for the
slots). The answer goes into its input buffer as a document. Nothing raised here may reach the engine, so failures
that a user can cause become answers of their own kind and are thrown again in JavaScript.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from getpass import getpass
from typing import Any

import bson

import docstore
from docstore.bson import document_to_python
from shell.address import MECHANISMS, SCHEME, Credentials, parse_address
from shell.bindings import files
from shell.bindings.screen import Screen
from shell.bindings.watcher import WATCHED, OperationWatcher
from shell.deployment import ANY_MEMBER, Deployment, Unreachable

COMMAND, CALL = 1, 2
ANSWERED, FAILED = 0, 1
_OPERATION, _LENGTH, _CONNECTION, _BY_PREFERENCE, _STATUS, _SERVER = range(6)


class Host:
    """State shared by all calls: connections, the output, and the next data for JavaScript."""

    def __init__(self, deployment: Deployment | None, screen: Screen) -> None:
        self._connections: list[Deployment | None] = [deployment]
        self._screen = screen
        self.argument: Any = None
        self.exit_code: int | None = None
        self._script = self._stopped = 0  # number of the script begun last, and of the last one that was interrupted
        self._functions: dict[str, Callable[..., Any]] = {
            "write": screen.write, "writeResult": screen.write_result, "progress": screen.progress,
            "quit": self._quit, "argument": lambda: self.argument, "sleep": self._sleep,
            "version": lambda: docstore.__version__, "hostname": socket.gethostname,
            "interactive": lambda: screen.live, "password": lambda: getpass("Enter password: "),
            "connect": self._connect, "disconnect": lambda number: self._deployment(int(number)).close(),
            "authenticate": self._authenticate,
            "forget": lambda number, source: self._deployment(int(number)).forget_user(source),
            "host": lambda number: str(self._deployment(int(number)).address),
            "defaults": lambda number: self._deployment(int(number)).address.defaults,
            "database": lambda: self._deployment(0).address.database,
            "databaseOf": lambda text: parse_address(text).database,
            **files.FUNCTIONS,
        }  # fmt: skip

    def attach(self, control: memoryview[float], answer: memoryview, request: memoryview) -> None:
        """Set the isolate's buffers: the numbers, the answers, the requests."""
        self._control, self._answer, self._request = control, answer, request

    def exchange(self) -> None:
        """Handle one call from JavaScript."""
        request = bytes(self._request[: int(self._control[_LENGTH])])
        try:
            if self._stopped == self._script:
                raise Unreachable("interrupted")
            answer = self._command(request) if self._control[_OPERATION] == COMMAND else self._call(request)
        except (Unreachable, ValueError, OSError, EOFError) as error:
            self._control[_STATUS] = FAILED
            answer = bson.encode({"message": _describe_error(error)})
        else:
            self._control[_STATUS] = ANSWERED
        self._answer[: len(answer)] = answer

    def begin(self) -> None:
        """Begin a new script. The last one may still be ending, in the middle of a call."""
        self._script += 1
        for connection in self._connections:
            if connection is not None:
                connection.begin()

    def interrupt(self) -> None:
        """Make the script's current wait and all its further requests fail; called from the terminal's thread."""
        self._stopped = self._script
        for connection in self._connections:
            if connection is not None:
                connection.interrupt()

    def close(self) -> None:
        for connection in self._connections:
            if connection is not None:
                connection.close()

    def _command(self, request: bytes) -> bytes:
        connection = self._deployment(int(self._control[_CONNECTION]))
        preference = None
        if self._control[_BY_PREFERENCE]:
            preference = document_to_python(request).get("$readPreference", ANY_MEMBER)
        with self._watcher(connection, request):
            answer = connection.run(request, preference=preference, server=int(self._control[_SERVER]))
        self._control[_SERVER] = connection.last_server
        return answer

    def _watcher(self, connection: Deployment, request: bytes) -> OperationWatcher | nullcontext[None]:
        name = request[5 : request.index(b"\0", 5)]
        if self._screen.live and name in WATCHED:
            return OperationWatcher(connection, document_to_python(request), self._screen)
        return nullcontext()

    def _call(self, request: bytes) -> bytes:
        fields = document_to_python(request)
        return bson.encode({"value": self._functions[fields["name"]](*fields["values"])})

    def _deployment(self, number: int) -> Deployment:
        connection = self._connections[number]
        if connection is None:
            raise Unreachable("not connected: the shell was started with --nodb")
        return connection

    def _connect(self, text: str) -> int:
        address = parse_address(text)
        first = self._connections[0]
        if first is not None and not text.startswith(SCHEME):
            # With the encryption of the shell's first connection; a complete address has its own.
            address = replace(address, encryption=first.address.encryption)
        deployment = Deployment(address)
        deployment.run(bson.encode({"ping": 1, "$db": "admin"}), preference=ANY_MEMBER)
        self._connections.append(deployment)
        return len(self._connections) - 1

    def _authenticate(self, number: float, source: str, user: str, password: str, mechanism: str | None) -> None:
        if mechanism is not None and mechanism not in MECHANISMS:
            raise ValueError(f"the mechanism {mechanism} is not supported: {', '.join(MECHANISMS)}")
        self._deployment(int(number)).authenticate(Credentials(user, password, source, mechanism))

    def _quit(self, code: float) -> None:
        self.exit_code = int(code)

    def _sleep(self, milliseconds: float) -> None:
        script = self._script
        end = time.monotonic() + milliseconds / 1000
        while self._stopped < script and (remaining := end - time.monotonic()) > 0:
            time.sleep(min(remaining, 0.1))


def _describe_error(error: Exception) -> str:
    """The text for the user: files and reasons without error numbers."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)
