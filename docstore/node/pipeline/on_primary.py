"""Output of a pipeline that runs on a secondary: the primary writes the results.

Always true: everything is asked of one primary in one term. That of `$out` is marked, and any other primary refuses it
(`docstore.node.remote_outputs`); what `$merge` has written ends with the first reply of another term.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import bson

from docstore.aggregation.stages.write import Merge, Out
from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.commands.requests.results import WRITE_FIELDS, Merging, OutOutput, checked
from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from docstore.node.node import DataNode, node_of
from docstore.node.read.sources import DocumentSource
from docstore.node.slices import Steps, step_end
from docstore.replicaset.hello import primary_host
from docstore.replicaset.replicaset import ReplicaSet

_BATCH_DOCUMENTS = 500
_BATCH_BYTES = 4 * 1024 * 1024
_PATIENCE_SECONDS = 24 * 3600.0
"""Timeout of a request without maxTimeMS: a write concern may wait arbitrarily long."""


class Primary(NamedTuple):
    """A primary, identified by address and term."""

    address: str
    term: int


class PrimaryTarget:
    """A collection on the primary. Implements `docstore.commands.requests.results.Target`."""

    id_fields: tuple[str, ...] = ("_id",)
    required_fields: tuple[str, ...] = ()
    unidentified_code = 51183

    def __init__(self, context: Context, node: DataNode, primary: Primary, namespace: str) -> None:
        self.namespace = namespace
        self._context = context
        self._node = node
        self._primary, self._term = primary
        self._database, _, self._collection = namespace.partition(".")

    async def ask(self, command: dict[str, Any]) -> bytes:
        return await self._sent(self._database, command)

    async def fill(self, temporary: str, documents: Sequence[bytes]) -> dict[str, Any]:
        return await self._written({"insert": temporary, "intoOutput": True}, {"documents": list(documents)})

    async def insert(self, documents: Sequence[bytes]) -> dict[str, Any]:
        return await self._written({"insert": self._collection}, {"documents": list(documents)})

    async def update(self, stage: Merge, statements: Sequence[bytes]) -> dict[str, Any]:
        return await self._written({"update": self._collection}, {"updates": list(statements)})

    async def rename(self, made: str) -> bytes:
        command = {
            "renameCollection": f"{self._database}.{made}",
            "to": self.namespace,
            "dropTarget": True,
            "fromOutput": True,
        }
        return await self._sent("admin", command | self._concern())

    async def drop(self, made: str) -> None:
        """Drop the temporary collection; if the request fails, the next primary drops it."""
        with suppress(CommandError):
            await self.ask({"drop": made})

    def _concern(self) -> dict[str, Any]:
        """Return the client's write concern, with `w: 0` raised to `w: 1`; empty if it gave none."""
        context = self._context
        if not context.explicit_write_concern:
            return {}
        return {"writeConcern": {"w": 1} if context.write_concern.w == 0 else context.write_concern.document()}

    async def _written(self, command: dict[str, Any], statements: Mapping[str, list[bytes]]) -> dict[str, Any]:
        write_fields = {name: value for name, value in self._context.body.items() if name in WRITE_FIELDS}
        body = bson.encode({**command, "ordered": False, **write_fields, **self._concern()})
        reply = document_to_python(await self._sent(self._database, body, statements))
        if reply["opTime"]["t"] != self._term:
            raise CommandError(
                Code.InterruptedDueToReplStateChange, f"the primary {self._primary} has stepped down meanwhile"
            )
        return checked(reply)

    async def _sent(
        self, database: str, command: dict[str, Any] | bytes, statements: Mapping[str, list[bytes]] | None = None
    ) -> bytes:
        pool, deadline = self._node.pool, self._context.deadline
        assert pool is not None, "a member of a set reaches the others"
        timeout = _PATIENCE_SECONDS if deadline is None else max(deadline - self._node.clock(), 0.001)
        try:
            return await pool.command(self._primary, database, command, sequences=statements, timeout=timeout)
        except NetworkError as error:
            raise CommandError(Code.HostUnreachable, f"the primary was lost: {error}") from error


def primary_elsewhere(node: DataNode) -> Primary | None:
    """Return the primary if it is another member, else None. Errors: NotWritablePrimary if none is known."""
    replication = node.replication
    if not isinstance(replication, ReplicaSet):
        return None
    state = replication.membership.state
    if state.writable:
        return None
    primary = primary_host(state)
    if not primary:
        raise CommandError(Code.NotWritablePrimary, "not primary, and no primary is known that could write the results")
    return Primary(primary, state.term)


def write_on_primary(
    context: Context, target: PrimaryTarget, stage: Out | Merge, source: DocumentSource, *, made: str
) -> Steps[dict[str, Any] | None]:
    """Write all documents of the source to the target; return the writeConcernError.

    `made`: the collection that `$out` fills.
    """
    node = node_of(context)
    output: OutOutput | Merging
    output = Merging(target, stage) if isinstance(stage, Merge) else OutOutput(target, made)
    yield output.begin()
    try:
        exhausted = False
        while not exhausted:
            batch = source.next_batch(_BATCH_DOCUMENTS, _BATCH_BYTES, step_end(node))
            exhausted = batch.exhausted
            yield output.write(batch.documents) if batch.documents else node.pause()
    except (Exception, CancelledError):
        yield output.give_up()
        raise
    yield output.end()
    return output.concern_error
