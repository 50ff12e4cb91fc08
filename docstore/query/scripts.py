"""Protocols of users' JavaScript: its runner, and tests and functions that are called for batches of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from docstore.bson.walk import Value
from docstore.errors import CommandError


class ScriptsWanted(Exception):
    """A request has scripts, but does not run in a context where scripts can run: the caller must restart it in one."""


class Prefetched(Protocol):
    """A function that is called for a batch of documents."""

    def prefetch(self, documents: Sequence[bytes]) -> None:
        """Make the calls for documents that are to be evaluated next."""
        ...


class Scripts(Protocol):
    """The runner of users' JavaScript. Functions are code or strings; errors: those of the scripts."""

    def enter(self, *, filters: bool = False) -> None:
        """Called by a parser for each script; `filters`: it is that of a `$where`. Errors: ScriptsWanted, 6108304 for a
        filter if scripts are not allowed there.
        """
        ...

    @property
    def stands_still(self) -> bool:
        """Return whether the request runs in a context in which it may wait while other tasks run."""
        ...

    def yield_to_loop(self) -> None:
        """Yield to other tasks; called by long evaluations without a script."""
        ...

    def test(self, function: Value, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """Return, for each document, whether the function is true of it, or the error that it raised."""
        ...

    def call(self, function: Value, arguments: Sequence[bytes]) -> list[Value | CommandError]:
        """Return the result of the function for each array of arguments, or the error that it raised."""
        ...

    def fold(self, function: Value, state: Value, arguments: Sequence[bytes]) -> Value:
        """Return the state after calling the function with it and each array of arguments in turn."""
        ...


class BatchTest(Protocol):
    """A test of a batch of documents."""

    @property
    def scripts(self) -> Scripts: ...

    def verdicts(self, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """Return the verdict on each document, or the error that the script raised."""
        ...
