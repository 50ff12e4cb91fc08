"""How a transaction ends on the shards that take part.

One that has written on at most one shard needs no coordinator: the others, which have only read, end first. Where
several have written, the first of them coordinates (`docstore.sharding.commitment`).

Always true:

* everything here may be done again when it is not known whether it was done;
* once the recovery shard may have been asked to commit, it alone is asked how the transaction ended: a reader that has
  restarted since knows of no transaction, whatever came of it.
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
from mongos.transactions.shards import Participant
from mongos.transactions.transaction import RouterTransaction

if TYPE_CHECKING:
    from mongos.router_parts import RouterParts

_ABORT_SECONDS = 5.0


async def commit(context: Context, transaction: RouterTransaction) -> bytes:
    """The reply. Errors: NoSuchTransaction where it is aborted; others, after which it may be either.

    The recovery shard is asked once all readers have ended durably; from then on it alone knows the outcome.
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
    """Errors: the `writeConcernError` of a reader's reply. The writers have not been asked to commit then."""
    concern_error = get_field(reply, "writeConcernError")
    if concern_error is not None:
        error = document_to_python(concern_error[1])
        raise CommandError(error.get("code", Code.WriteConcernFailed), error.get("errmsg", ""))


async def recover(context: Context, session: Session, shard: Shard, router: RouterParts) -> bytes:
    """The reply of a commit of which this router knows nothing but the shard that does. Errors: as of `commit`."""
    transaction = {**lsid_fields(session), "txnNumber": Int64(session.txn_number or 0), "autocommit": False}
    return await _ask(context, shard, bson.encode({**_with_concern(context, coordinate_commit([])), **transaction}))


def lsid_fields(session: Session) -> dict[str, Any]:
    return {"lsid": {**lsid_document(session.lsid), "uid": bson.Binary(session.lsid[16:], 0)}}


async def abort_everywhere(transaction: RouterTransaction) -> None:
    """End it on all shards; one that does not answer ends it by itself after a while."""

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
        left = max(int((context.deadline - shard.now()) * 1000), 1)
        command = append_fields(command, b"\x10maxTimeMS\0" + left.to_bytes(4, "little"))
    answer = await shard.command("admin", command, repeatable=True, deadline=context.deadline)
    return answer.relayed()


def _commit_command(context: Context) -> dict[str, Any]:
    return _with_concern(context, {"commitTransaction": 1})


def _with_concern(context: Context, command: Mapping[str, Any]) -> dict[str, Any]:
    """With the client's write concern, where it gave one."""
    concern = context.body.get("writeConcern")
    return dict(command) if concern is None else {**command, "writeConcern": concern}
