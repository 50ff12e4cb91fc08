"""Copies of a collection into a new capped one: as many of its newest documents as fit, in order.

* A copy reads one snapshot. `convert` replaces the source, so it restarts if the source is written meanwhile.
* Copies left by a crash are dropped at the next start or election (`docstore.node.pipeline.map_reduce`).
"""

from __future__ import annotations

from typing import Any

from bson.objectid import ObjectId

from docstore.bson import elements
from docstore.collection.catalog.options import capped_size, options_of
from docstore.collection.changes import Commit
from docstore.collection.collection import Collection
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.ddl.catalog_changes import check_takes_documents, enter_change
from docstore.node.node import DataNode, node_of
from docstore.node.slices import Slices, finish_steps
from docstore.node.write.driver import Outcome, drive, effective_concern, wait_for_write
from docstore.node.write.insert import Inserts
from docstore.node.write.statement_loop import WriteTarget

_TRIES = 5
_CLOCK_EVERY = 128
_CONVERTED = "convertToCapped"
_KEPT_OPTIONS = frozenset(
    ("changeStreamPreAndPostImages", "collation", "validationAction", "validationLevel", "validator")
)
"""Options that a copy has of its source."""


def is_unconverted(collection: str) -> bool:
    """Return True if the name is one that only `convert` gives to its copy."""
    parts = collection.split(".", 3)
    return len(parts) == 4 and (parts[0], parts[2]) == ("tmp", _CONVERTED) and ObjectId.is_valid(parts[1])


async def clone(context: Context, source: Collection, target: str, size: int) -> dict[str, Any]:
    """Create the capped copy `target`, which does not exist yet; return the reply."""
    node = node_of(context)
    concern = effective_concern(context, node)
    await enter_change(context)
    await _copy(context, source, target, size)
    failed = await wait_for_write(context, None, concern)
    return {} if failed is None else {"writeConcernError": failed}


async def convert(context: Context, source: Collection, size: int) -> dict[str, Any]:
    """Replace a collection by a capped copy with the `_id` index only; return the reply.

    Errors: ConflictingOperationInProgress if the collection was written during each of several attempts.
    """
    node, namespace = node_of(context), source.ns
    concern = effective_concern(context, node)
    await enter_change(context)
    for _ in range(_TRIES):
        database, name = split_namespace(namespace)
        temporary = f"{database}.tmp.{ObjectId()}.{_CONVERTED}.{name}"
        watch = _Watch(node, namespace)
        node.outputs.add(temporary)
        try:
            await _copy(context, source, temporary, size)
            await enter_change(context)
            if node.store.collection(namespace) is not source:
                raise CommandError(Code.NamespaceNotFound, f"{namespace} was dropped or renamed meanwhile")
            if not watch.changed:
                with node.store.unit() as unit:
                    node.store.rename_collection(unit, temporary, namespace, drop_target=True)
                    last = unit.commit()
                failed = await wait_for_write(context, last, concern)
                return {} if failed is None else {"writeConcernError": failed}
        finally:
            watch.end()
            _discard(node, temporary)
            node.outputs.discard(temporary)
    raise CommandError(Code.ConflictingOperationInProgress, f"{namespace} is being written to all the time")


class _Watch:
    """Detects writes to a collection: `changed` is set by the first."""

    def __init__(self, node: DataNode, namespace: str) -> None:
        self.changed = False
        self._namespace = namespace
        self.end = node.store.subscribe(self._committed)

    def _committed(self, commit: Commit) -> None:
        if any(change.ns == self._namespace for change in commit.changes):
            self.changed = True


async def _copy(context: Context, source: Collection, target: str, size: int) -> None:
    node = node_of(context)
    store = node.store
    documents = await _newest(context, source, capped_size(size))
    await enter_change(context)
    check_takes_documents(store, target)
    with store.unit(from_migrate=True) as unit:
        options = options_of({"capped": True, "size": capped_size(size)})
        options = options.changed(
            {name: (code, data) for name, code, data in elements(source.options.raw) if name in _KEPT_OPTIONS}
        )
        store.create_collection(unit, target, options)
        unit.commit()
    if documents:
        # They are there already, whether or not the validator would take them now.
        writing = WriteTarget(node, target, Outcome(), bypass_validation=True)
        inserts = Inserts(writing, documents, ordered=True, from_migrate=True)
        await finish_steps(context, drive(context, inserts))
        if inserts.outcome.errors:
            raise inserts.outcome.errors[0][1]


async def _newest(context: Context, source: Collection, size: int) -> list[bytes]:
    """Return the newest documents that fit into `size` bytes, at least one, oldest first."""
    snapshot = node_of(context).engine.snapshot()
    documents: list[bytes] = []
    slices = Slices(context)
    try:
        for raw in source.documents(snapshot, reverse=True):
            size -= len(raw)
            if size < 0 and documents:
                break
            documents.append(raw)
            if len(documents) % _CLOCK_EVERY == 0:
                await slices.pause_when_due()
    finally:
        snapshot.close()
    return documents[::-1]


def _discard(node: DataNode, namespace: str) -> None:
    """Drop the temporary collection if it still exists and this node may write."""
    if not node.store.writable or node.store.collection(namespace) is None:
        return
    with node.store.unit() as unit:
        node.store.drop_collection(unit, namespace)
        unit.commit()
