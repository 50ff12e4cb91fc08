"""Access to the servers of a deployment: the connection options name one of them, and apply to all."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import click
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, InvalidURI

from docstore.security.cluster_keys import MECHANISM, BadKeys, parse_keys
from docstore.security.names import SYSTEM
from docstore.tools.connection import Commands, client_options, options_of_any_server
from docstore.tools.terminal import Terminal

Client = MongoClient[dict[str, Any]]
MEMBER_MS = 3000
"""The time limit for finding a member: there may be others."""
_ANSWER_MS = 300_000
"""A checkpoint that must write much first may take long; a server that stands still is given up then."""


class Access:
    """Clients with the same user and encryption. `close` closes all that were created."""

    def __init__(self, key_file: Path | None, options: dict[str, Any]) -> None:
        """`options`: the values of `docstore.tools.connection.connection_options`. Errors: click.UsageError."""
        self._lock = Lock()
        self._clients: dict[tuple[str, ...], Client] = {}
        if key_file is not None:
            if options["username"] is not None:
                raise click.UsageError("a key file is who one is: --keyFile and --username exclude each other")
            options |= {"username": SYSTEM.user, "password": _key(key_file), "source": SYSTEM.db}
            options["mechanism"] = MECHANISM
        self.verbose = bool(options["verbose"])
        """True to report more details."""
        listeners = [Commands(Terminal(quiet=options["quiet"]))] if options["verbose"] > 1 else []
        options = {name: value for name, value in options.items() if name != "quiet"}
        self._uri, self._options = client_options(options | {"event_listeners": listeners})
        self._more = options_of_any_server(self._uri) | self._options

    def named(self) -> Client:
        """Return the client of the address in the options."""
        if () not in self._clients:
            try:
                self._clients[()] = MongoClient(self._uri, **self._options)
            except (ConfigurationError, InvalidURI, ValueError) as error:
                raise click.UsageError(str(error)) from error
        return self._clients[()]

    def member(self, address: str) -> Client:
        """Return the client of one server alone."""
        return self._connect((address,), directConnection=True, serverSelectionTimeoutMS=MEMBER_MS)

    def replica_set(self, name: str, addresses: tuple[str, ...]) -> Client:
        return self._connect((name, *addresses), replicaSet=name)

    def _connect(self, key: tuple[str, ...], **more: Any) -> Client:
        with self._lock:
            if key not in self._clients:
                addresses = list(key if "directConnection" in more else key[1:])
                options = {"socketTimeoutMS": _ANSWER_MS, **self._more, **more}
                self._clients[key] = MongoClient(addresses, **options)
            return self._clients[key]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def _key(path: Path) -> str:
    try:
        return parse_keys(path.read_text())[0]
    except (BadKeys, UnicodeDecodeError) as error:
        raise click.UsageError(f"the key file {path} is not usable: {error}") from error
    except OSError as error:
        raise click.UsageError(f"cannot read the key file {path}: {error.strerror}") from error
