"""Common parts of insert, update, delete and bulkWrite on a router: statement kinds, batch limits, and execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bson.objectid import ObjectId

from docstore.bson import get_field
from docstore.commands.context import Context
from docstore.commands.limits import MAX_WRITE_BATCH
from docstore.errors import Code, CommandError
from docstore.sharding.routing import Routing
from mongos.relay.asked import Asked, Begun
from mongos.relay.targets import Language, NamespaceTargets
from mongos.router import router_of
from mongos.routing.query_context import names_time, query_context_of
from mongos.routing.targeting import Target, delete_target, documents_only, insert_target, update_target
from mongos.routing.writes import Batch, BatchWrite, Kind, Outcome


def written_size(statement: bytes) -> int:
    """Return an estimate of the bytes that an update adds to its chunk: the size of its `u`."""
    update = get_field(statement, "u")
    return 0 if update is None else len(update[1])


def with_id(document: bytes) -> bytes:
    """Return the document with an `_id`. The router generates it if missing, so that a retry uses the same one."""
    if get_field(document, "_id") is not None:
        return document
    identity = b"\x07_id\0" + ObjectId().binary
    return (len(document) + len(identity)).to_bytes(4, "little") + identity + document[4:]


INSERTS = Kind("documents", insert_target, len, with_id)
UPDATES = Kind("updates", update_target, written_size)
DELETES = Kind("deletes", delete_target, lambda statement: 0)


def in_language(context: Context, kind: Kind, let: bytes | None) -> Kind:
    """Return updates or deletes with these variables added to their filters. Errors: those of `let`."""
    language = partial(query_context_of, context, let)
    if let is not None:
        language()
    under = router_of(context).targets.under

    def target(routing: Routing, statement: bytes) -> Target:
        return _target(kind, under(routing), statement, language, plain=let is None)

    return replace(kind, target=target)


def _target(kind: Kind, targets: NamespaceTargets, statement: bytes, language: Language, *, plain: bool) -> Target:
    if kind.field == "updates":
        return targets.of_update(statement, language, plain=plain)
    if kind.field == "deletes":
        return targets.of_delete(statement, language, plain=plain)
    return kind.target(targets.routing, statement)


def first_request(
    context: Context, kind: Kind, statements: Sequence[bytes], targets: NamespaceTargets, let: bytes | None = None
) -> Asked | None:
    """Return the request of the only statement, if it goes as it came to one shard; else None, also for one that is
    refused: errors of statements are part of the reply. Errors: those of `documents_only`.
    """
    documents_only(context, targets.routing)
    if len(statements) != 1:
        return None
    statement = statements[0]
    if kind.complete is not None:
        if get_field(statement, "_id") is None:
            return None
    elif names_time(context.raw, statement):
        return None
    try:
        target = _target(kind, targets, statement, partial(query_context_of, context, let), plain=let is None)
    except CommandError:
        return None
    return Asked(target=target, size=kind.size(statement)) if len(target.shards) == 1 else None


async def run_statements(
    context: Context, kind: Kind, statements: Sequence[bytes], *, ordered: bool, begun: Begun | None = None
) -> dict[str, Any]:
    """Execute a batch and return the reply. Errors: InvalidLength, those of `carry_out`."""
    if not 0 < len(statements) <= MAX_WRITE_BATCH:
        raise CommandError(
            Code.InvalidLength,
            f"Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {len(statements)} operations.",
        )
    return (await carry_out(context, kind, statements, ordered=ordered, begun=begun)).reply()


async def carry_out(
    context: Context, kind: Kind, statements: Sequence[bytes], *, ordered: bool, counted: bool = False,
    begun: Begun | None = None,
) -> Outcome:  # fmt: skip
    """Execute a batch, whose only statement may have begun, and return the outcome; with `counted`, also of each
    statement. Errors: those of `BatchWrite.carry_out`.
    """
    router = router_of(context)
    if begun is None:
        routing = await router.cache.get(context.namespace)
        documents_only(context, routing)
        if kind.field == DELETES.field and routing.primary is None:
            # Nothing is made to be deleted from.
            return Outcome(by_statement={index: [0, 0] for index in range(len(statements))} if counted else None)
    batch = BatchWrite(
        context, Batch(kind, statements, ordered), shards=router.shards, cache=router.cache,
        accounting=router.autosplit, ensure_database=router.ensure_database, pause=router.scheduler.pause,
        counted=counted,
    )  # fmt: skip
    return await batch.carry_out(begun)
