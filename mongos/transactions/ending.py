"""Commit and abort of a transaction on its shards.

A transaction that has written on at most one shard needs no coordinator: the read-only shards end first. If several
have written, the first of them coordinates (`docstore.sharding.commitment`).

Invariants:

- every step may be repeated if its outcome is unknown;
- once the recovery shard may have been asked to commit, only that shard is asked for the outcome. A read-only shard
  that has restarted since knows no such transaction, committed or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import bson
from bson.int64 import Int64

from docstore.bson import append_fields, document_from, document_to_python, get_field
from docstore.commands.context import Context
from docstore.commands.sessions.fields import Session, lsid_document
from docstore.errors import Code, CommandError
from docstore.sharding.commitment import coordinate_commit
from mongos.routing.shards import Shard, each
from mongos.transactions.transaction import Participant, RouterTransaction

if TYPE_CHECKING:
    from mongos.router_parts import RouterParts

_ABORT_SECONDS = 5.0


async def commit(context: Context, transaction: RouterTransaction) -> bytes:
    """Commit and return the reply. Errors: NoSuchTransaction if it is aborted; after others it may be either.

    The recovery shard is asked once all read-only shards have ended durably; from then on it alone knows the outcome.
    """
    begun = [participant for participant in transaction.participants.values() if participant.begun]
    recovery = transaction.recovery

    async def end(participant: Participant) -> bytes:
        return await _ask(context, participant.shard, transaction.command(_commit_command(context)))

    if recovery is None:
        replies = await each(begun, end)
        return next((reply for reply in replies if reply != _NOTHING), _NOTHING)
    writers = [participant for participant in begun if not participant.read_only]
    if not transaction.commit_requested:
        for reply in await each([participant for participant in begun if participant.read_only], end):
            _check_durable(reply)
        transaction.commit_requested = True
    if writers == [recovery]:
        return await end(recovery)
    command = _with_concern(context, coordinate_commit([participant.shard.name for participant in writers]))
    return await _ask(context, recovery.shard, transaction.command(command))


_NOTHING = document_from([])


def _check_durable(reply: bytes) -> None:
    """Raise the `writeConcernError` of a read-only shard's reply. The writers have not been asked to commit then."""
    concern_error = get_field(reply, "writeConcernError")
    if concern_error is not None:
        error = document_to_python(concern_error[1])
        raise CommandError(error.get("code", Code.WriteConcernFailed), error.get("errmsg", ""))


async def recover(context: Context, session: Session, shard: Shard, router: RouterParts) -> bytes:
    """Return the reply to a commit of which this router knows only the recovery shard. Errors: as of `commit`."""
    transaction = {**lsid_fields(session), "txnNumber": Int64(session.txn_number or 0), "autocommit": False}
    return await _ask(context, shard, bson.encode({**_with_concern(context, coordinate_commit([])), **transaction}))


def lsid_fields(session: Session) -> dict[str, Any]:
    return {"lsid": {**lsid_document(session.lsid), "uid": bson.Binary(session.lsid[16:], 0)}}


async def abort_everywhere(transaction: RouterTransaction) -> None:
    """Abort on all shards; a shard that does not answer aborts by itself after a while."""

    async def end(participant: Participant) -> None:
        shard = participant.shard
        try:
            await shard.command(
                "admin", transaction.command({"abortTransaction": 1}), deadline=shard.now() + _ABORT_SECONDS
            )
        except CommandError:
            return

    await each(list(transaction.participants.values()), end)


async def _ask(context: Context, shard: Shard, command: bytes) -> bytes:
    if context.max_time_ms and context.deadline is not None:
        remaining_ms = max(int((context.deadline - shard.now()) * 1000), 1)
        command = append_fields(command, b"\x10maxTimeMS\0" + remaining_ms.to_bytes(4, "little"))
    answer = await shard.command("admin", command, repeatable=True, deadline=context.deadline)
    return answer.relayed()


def _commit_command(context: Context) -> dict[str, Any]:
    return _with_concern(context, {"commitTransaction": 1})


def _with_concern(context: Context, command: Mapping[str, Any]) -> dict[str, Any]:
    """Add the client's write concern, if it gave one."""
    concern = context.body.get("writeConcern")
    return dict(command) if concern is None else {**command, "writeConcern": concern}
