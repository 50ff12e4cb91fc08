"""Scripts of filters and expressions, run for the request of the current thread (`docstore.js.script_thread`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from docstore.bson import document_from
from docstore.bson.walk import Value
from docstore.errors import Code, CommandError, no_scripting
from docstore.js import script_thread
from docstore.js.evaluation import Evaluation
from docstore.js.workers import Workers
from docstore.query.scripts import ScriptsWanted

PIECE_BYTES = 4 * 1024 * 1024
"""Bytes of documents sent to a worker at once."""


class RunningScripts:
    """Serves `docstore.query.scripts.Scripts`."""

    def enter(self, *, filters: bool = False) -> None:
        current = script_thread.current()
        if current is None or current.scripts is None:
            raise ScriptsWanted
        if filters and isinstance(current.scripts, NoScripts):
            raise CommandError(6108304, "$where cannot be used: this server runs no JavaScript")

    @property
    def stands_still(self) -> bool:
        current = script_thread.current()
        return current is not None and current.scripts is not None

    def yield_to_loop(self) -> None:
        _current().wait(asyncio.sleep(0))

    def test(self, function: Value, documents: Sequence[bytes]) -> list[bool | CommandError]:
        current = _current()
        results: list[bool | CommandError] = []
        for piece in _pieces(documents):
            results += current.wait(current.scripts.test(function, piece))
        return results

    def call(self, function: Value, arguments: Sequence[bytes]) -> list[Value | CommandError]:
        current = _current()
        results: list[Value | CommandError] = []
        for piece in _pieces(arguments):
            results += current.wait(current.scripts.call(function, piece))
        return results

    def fold(self, function: Value, state: Value, arguments: Sequence[bytes]) -> Value:
        current = _current()
        for piece in _pieces(arguments):
            outcome = current.wait(current.scripts.fold(function, document_from([("v", *state)]), piece))
            if isinstance(outcome, CommandError):
                raise outcome
            state = outcome
        return state


RUNNING = RunningScripts()


class ParsedScripts:
    """Scripts that are only parsed here, to be run elsewhere."""

    def enter(self, *, filters: bool = False) -> None:
        """Do nothing: no preparation is needed."""

    @property
    def stands_still(self) -> bool:
        return False

    def yield_to_loop(self) -> None:
        raise _elsewhere()

    def test(self, function: Value, documents: Sequence[bytes]) -> list[bool | CommandError]:
        raise _elsewhere()

    def call(self, function: Value, arguments: Sequence[bytes]) -> list[Value | CommandError]:
        raise _elsewhere()

    def fold(self, function: Value, state: Value, arguments: Sequence[bytes]) -> Value:
        raise _elsewhere()


PARSED = ParsedScripts()


def _elsewhere() -> CommandError:
    return CommandError(Code.NotImplemented, "a script whose value a router must know is not supported")


class NoScripts:
    """Replaces an `Evaluation` where JavaScript is disabled: every call is refused."""

    async def call(self, function: Value, arguments: Sequence[bytes]) -> list[Value | CommandError]:
        return [no_scripting()] * len(arguments)

    async def fold(self, function: Value, state: bytes, arguments: Sequence[bytes]) -> Value | CommandError:
        return no_scripting()


async def carry_out(
    begin: Callable[[], Any], workers: Workers | None, stored: bytes | None = None, owner: Hashable = None
) -> Any:
    """Return the result of `begin`, awaited if necessary; its scripts run in one of the workers. Without workers they
    are refused.

    `stored`: the functions that the database keeps, as one document. `owner`: the owner of the share of workers.
    """
    if workers is None:
        return await script_thread.Turns(begin, NoScripts())
    evaluation = Evaluation(workers, stored, owner)
    try:
        return await script_thread.Turns(begin, evaluation)
    finally:
        await evaluation.close()


def _current() -> script_thread.Turns:
    current = script_thread.current()
    if current is None:
        raise CommandError(Code.JSInterpreterFailure, "JavaScript cannot be run in this place")
    return current


def _pieces(documents: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start = size = 0
    for position, document in enumerate(documents):
        if size and size + len(document) > PIECE_BYTES:
            yield documents[start:position]
            start, size = position, 0
        size += len(document)
    if start < len(documents):
        yield documents[start:]
