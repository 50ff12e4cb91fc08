"""Protocols of users' JavaScript: what runs it, and tests and functions that are called for many documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from docstore.bson.walk import Value
from docstore.errors import CommandError


class ScriptsWanted(Exception):
    """A request has scripts but is not carried out where scripts can run: it has to be begun anew, there."""


class Prefetched(Protocol):
    """A function that is called for many documents at once."""

    def prefetch(self, documents: Sequence[bytes]) -> None:
        """Make the calls for documents that are to be evaluated next."""
        ...


class Scripts(Protocol):
    """The runner of users' JavaScript. Functions are code or strings; errors: those of the scripts."""

    def enter(self, *, filters: bool = False) -> None:
        """Said by a parser that has met a script; `filters`: one of a `$where`. Errors: ScriptsWanted, 6108304 for a
        filter where none are run.
        """
        ...

    @property
    def stands_still(self) -> bool:
        """Return whether the request runs where it may wait while others run."""
        ...

    def rest(self) -> None:
        """Let others work; said by what goes on for long without a script."""
        ...

    def test(self, function: Value, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """Return, for each document, whether the function is true of it, or the error that it threw."""
        ...

    def call(self, function: Value, arguments: Sequence[bytes]) -> list[Value | CommandError]:
        """The result of the function for each array of arguments, or what it threw."""
        ...

    def fold(self, function: Value, state: Value, arguments: Sequence[bytes]) -> Value:
        """Return the state after calling the function with it and each array of arguments in turn."""
        ...


class BatchTest(Protocol):
    """A test that is made for many documents at once."""

    @property
    def scripts(self) -> Scripts: ...

    def verdicts(self, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """Return the verdict on each document, or the error that the script threw."""
        ...
