"""Calls of users' functions for the documents of one request, in a worker process of the request's own.

A call is a document that names the function, followed by its inputs; the answer has one record for each input.
`runtime/evaluate.js` is the other side.

- A worker is taken with the first call and released by `close`; each request begins with a fresh isolate.
- An exception of the user's code is a record like any other (a `CommandError`): it counts only if the result is used.
- A function is sent once to each worker, and has a number from then on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AsyncExitStack
from enum import IntEnum

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python, get_field
from docstore.bson.walk import Value
from docstore.errors import Code, CommandError
from docstore.js.job import MEBIBYTE, Limits
from docstore.js.session import function_source
from docstore.js.stored import checked
from docstore.js.workers import Lease, Workers

MAX_INPUT = 16 * MEBIBYTE + 512 * 1024


class CallKind(IntEnum):
    """The ways of calling a function; the numbers are those of evaluate.js."""

    TEST = 0
    """With a document as `this`; the answer is whether the result is true."""
    CALL = 1
    """With the elements of an array; the answer is the result."""
    FOLD = 2
    """With a state and the elements of an array, again and again; the answer is the last state."""


class Evaluation:
    """The calls of one request. `stored`: a document of the functions that the database keeps, for filters. `owner`:
    whose request it is.
    """

    def __init__(self, workers: Workers, stored: bytes | None = None, owner: Hashable = None) -> None:
        self._limits = Limits(owner=owner)
        self._workers = workers
        self._stored = stored
        self._lease: Lease | None = None
        self._stack = AsyncExitStack()
        self._known: dict[tuple[bool, Value], int] = {}

    async def test(self, function: Value, documents: Sequence[bytes]) -> list[bool | CommandError]:
        """Return the function's verdict on each document."""
        answer = await self._call(CallKind.TEST, function, documents)
        verdicts: list[bool | CommandError] = [byte == 1 for byte in answer[: len(documents)]]
        at = len(documents)
        for position, byte in enumerate(answer[: len(documents)]):
            if byte == 2:
                end = at + _length(answer, at)
                verdicts[position] = _thrown(answer[at:end])
                at = end
        return verdicts

    async def call(
        self, function: Value, arguments: Sequence[bytes], *, with_stored: bool = False
    ) -> list[Value | CommandError]:
        """The result of the function for each array of arguments."""
        return _results(await self._call(CallKind.CALL, function, arguments, with_stored=with_stored))

    async def fold(self, function: Value, state: bytes, arguments: Sequence[bytes]) -> Value | CommandError:
        """`state`: a document with the state as its field `v`; the state after all arguments."""
        return _results(await self._call(CallKind.FOLD, function, [state, *arguments]))[0]

    async def close(self) -> None:
        """Release the worker. A worker in the middle of a call is ended."""
        await self._stack.aclose()

    async def _call(
        self, kind: CallKind, function: Value, documents: Sequence[bytes], *, with_stored: bool = False
    ) -> bytes:
        if self._lease is None:
            self._lease = await self._stack.enter_async_context(self._workers.lease(self._limits))
        key = (kind is CallKind.TEST, function)
        number = self._known.get(key)
        definition: dict[str, object] = {"way": int(kind)}
        if number is None:
            number = self._known[key] = len(self._known)
            definition["source"] = function_source(function)[0]
        definition["function"] = number
        if (with_stored or kind is CallKind.TEST) and self._stored is not None:
            definition["stored"], self._stored = RawBSONDocument(checked(self._stored)), None
        payload = b"".join((bson.encode(definition), *documents))
        if len(payload) > MAX_INPUT:
            raise CommandError(Code.BSONObjectTooLarge, "the arguments of a JavaScript function are too large")
        return await self._lease.exchange(payload)


def _results(answer: bytes) -> list[Value | CommandError]:
    results: list[Value | CommandError] = []
    at = 0
    while at < len(answer):
        end = at + _length(answer, at)
        record = answer[at:end]
        value = get_field(record, "v")
        results.append(_thrown(record) if value is None else value)
        at = end
    return results


def _thrown(record: bytes) -> CommandError:
    fields = document_to_python(record)
    return CommandError(int(fields["code"]), fields["message"])


def _length(answer: bytes, at: int) -> int:
    return int.from_bytes(answer[at : at + 4], "little")
