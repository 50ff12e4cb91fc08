"""Output of a pipeline to a collection: the run, and `$out`.

`$out` fills a temporary collection with the target's options and indexes, and renames it to the target in one step. So
the target is always either the old or the new collection.
"""

from __future__ import annotations

from typing import Protocol
from uuid import uuid4

from bson.objectid import ObjectId

from docstore.aggregation.stages.write import Merge, Out, check_target
from docstore.bson import document_from, elements, from_python
from docstore.collection.catalog.options import NO_OPTIONS
from docstore.collection.catalog.views import check_no_view
from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.namespace import check_collection_name, split_namespace
from docstore.node.ddl.catalog_changes import check_takes_documents
from docstore.node.entry import Repeated, enter_change, enter_write, run_continuation, write_in_slices
from docstore.node.node import DataNode, node_of
from docstore.node.pipeline.merge import MergeOutput
from docstore.node.pipeline.on_primary import PrimaryTarget, primary_elsewhere, write_on_primary
from docstore.node.read.cursors import cursor_reply
from docstore.node.read.sources import DocumentSource
from docstore.node.slices import Steps, step_end
from docstore.node.write.documents import prepare
from docstore.node.write.driver import effective_concern, wait_for_write
from docstore.node.write.validators import Validator, validator_of
from docstore.optime import OpTime

_BATCH_DOCUMENTS = 500
_BATCH_BYTES = 1024 * 1024
_CLOCK_EVERY = 16


OUT_TEMPORARY = "tmp.agg_out."
"""Prefix of the collections that `$out` fills; a UUID follows."""


class Output(Protocol):
    """A target of results; its methods never await. `last` is the optime of the last write."""

    last: OpTime | None

    def begin(self) -> None:
        """Check that the target accepts the results, and prepare it."""
        ...

    def write(self, documents: list[bytes], until: float) -> int:
        """Write some of the documents, at least one; return how many."""
        ...

    def end(self) -> None:
        """Make the results visible after the last document."""
        ...

    def give_up(self) -> None:
        """Remove preparations after a failure, if this node may write."""
        ...


def write_results(
    context: Context, stage: Out | Merge, source: DocumentSource, *, bypass: bool, shown: str
) -> Steps[bytes]:
    """Write all documents of the source to the target; return the reply, an empty cursor over `shown`.

    On a secondary the primary writes them.
    """
    node = node_of(context)
    temporary = f"{stage.database or context.db}.{OUT_TEMPORARY}{uuid4()}"
    node.outputs.add(temporary)
    try:
        database = stage.database or context.db
        check_target(stage, database)
        namespace = check_collection_name(database, stage.collection)
        concern = effective_concern(context, node)
        context.progress.irrevocable = True
        primary = primary_elsewhere(node)
        if primary is not None:
            target = PrimaryTarget(context, node, primary, namespace)
            failed = yield from write_on_primary(context, target, stage, source, made=split_namespace(temporary)[1])
        else:
            last = yield from _write_here(node, namespace, stage, source, made=temporary, bypass=bypass)
    finally:
        node.outputs.discard(temporary)
        source.close()
    if primary is None:
        failed = yield wait_for_write(context, last, concern)
    reply = cursor_reply([], 0, shown)
    if failed is not None:
        reply = document_from([*elements(reply), ("writeConcernError", *from_python(failed))])
    return reply


def _write_here(
    node: DataNode, namespace: str, stage: Out | Merge, source: DocumentSource, *, made: str, bypass: bool
) -> Steps[OpTime | None]:
    if isinstance(stage, Out):
        output: Output = OutOutput(node, namespace, made=made, bypass=bypass)
    else:
        output = MergeOutput(node, namespace, stage, bypass=bypass)
    yield from enter_write(node, namespace)
    output.begin()
    try:
        exhausted = False
        while not exhausted:
            batch = source.next_batch(_BATCH_DOCUMENTS, _BATCH_BYTES, step_end(node))
            exhausted = batch.exhausted
            # Producing the documents took a slice, and each step of writing takes one.
            yield node.pause()
            yield from run_continuation(write_documents(node, namespace, output, batch.documents))
            yield node.pause()
        yield from run_continuation(enter_change(node, namespace))
        output.end()
    except BaseException:
        output.give_up()
        raise
    return output.last


def write_documents(node: DataNode, namespace: str, output: Output, documents: list[bytes]) -> Steps[None]:
    """Write a batch of results."""
    at = 0

    def write(_owned: Predicate | None, until: float) -> bool:
        nonlocal at
        at += output.write(documents[at:], until)
        return at == len(documents)

    if documents:
        yield from write_in_slices(node, namespace, Repeated(write, can_wait=True))


class OutOutput:
    """Writes the results of `$out`.

    `made`: the temporary collection; `like_target`: copy the target's options and indexes.
    """

    def __init__(self, node: DataNode, namespace: str, *, made: str, like_target: bool = True, bypass: bool) -> None:
        self.last: OpTime | None = None
        self._node = node
        self._namespace = namespace
        self._made = made
        self._like_target = like_target
        self._bypass = bypass
        self._validator: Validator | None = None

    def begin(self) -> None:
        """Create the temporary collection. Errors: 17152 for a capped target, CommandNotSupportedOnView for a view."""
        store = self._node.store
        check_no_view(store, self._namespace)
        target = store.collection(self._namespace) if self._like_target else None
        if target is not None and target.options.capped:
            raise CommandError(17152, f"namespace '{self._namespace}' is capped so it can't be used for $out")
        check_takes_documents(store, self._namespace)
        unit = store.unit()
        try:
            collection = store.create_collection(unit, self._made, NO_OPTIONS if target is None else target.options)
            for index in () if target is None else target.indexes.values():
                if not index.is_id:
                    store.create_index(unit, collection, index.spec)
        except BaseException:
            unit.abort()
            raise
        self._commit(unit)
        self._validator = validator_of(self._node, collection, bypass=self._bypass)

    def write(self, documents: list[bytes], until: float) -> int:
        collection = self._collection()
        unit = self._node.store.unit()
        written = 0
        try:
            for raw in documents:
                prepared = prepare(raw, _new_id, self._node.timestamp)
                if self._validator is not None:
                    self._validator.check_new(prepared)
                unit.insert(collection, prepared)
                written += 1
                if written % _CLOCK_EVERY == 0 and self._node.clock() >= until:
                    break
        except BaseException:
            unit.abort()
            raise
        self._commit(unit)
        return written

    def end(self) -> None:
        unit = self._node.store.unit()
        try:
            self._node.store.rename_collection(unit, self._made, self._namespace, drop_target=True)
        except BaseException:
            unit.abort()
            raise
        self._commit(unit)

    def give_up(self) -> None:
        store = self._node.store
        # Also during a step-down, which may fail; after one, the new primary drops it.
        if not store.writable or store.collection(self._made) is None:
            return
        with store.unit() as unit:
            store.drop_collection(unit, self._made)
            unit.commit()

    def _collection(self) -> Collection:
        collection = self._node.store.collection(self._made)
        if collection is None:
            raise CommandError(17216, f"the collection that is filled was dropped: {self._made}")
        return collection

    def _commit(self, unit: WriteUnitOfWork) -> None:
        self.last = unit.commit() or self.last


def _new_id() -> bytes:
    return ObjectId().binary
