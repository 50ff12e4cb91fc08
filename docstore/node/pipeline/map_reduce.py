"""Output of a map-reduce: all results become visible or none, also after a crash.

Results are collected in a temporary collection, `tmp.mr.<id>` of the target's database, which is then applied:

* `replace` renames it to the target in one step; it was created with the target's options and indexes.
* `merge` and `reduce` do the same if there is no target. Otherwise they record in `UNFINISHED` that it is to be merged,
  and merge its documents into the target by `_id`. The record and the temporary collection are dropped in one step.

After a crash, or a change of the primary, `finish_left_outputs` goes on merging those with a note and drops temporary
collections without one. Merging a document twice changes nothing, so it may begin anew. Collections that a router or a
secondary fills are safe to drop as well (`docstore.node.remote_outputs`). While their primary stays,
`drop_idle_outputs` drops those that nobody has written to for long.
"""

from __future__ import annotations

from itertools import islice
from typing import Any
from uuid import UUID

import bson
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python
from docstore.bson.walk import ARRAY
from docstore.collection.catalog.views import check_no_view
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.context import Context
from docstore.commands.requests.map_reduce import Mode, Output, merging
from docstore.errors import CommandError, interrupted
from docstore.js.workers import Sink
from docstore.kernel.match.predicate import Predicate
from docstore.namespace import replicates, split_namespace
from docstore.node.ddl.capped import is_unconverted
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.entry import Repeated, enter_change, enter_write, write_in_slices
from docstore.node.node import DataNode, node_of
from docstore.node.pipeline.merge import MergeOutput
from docstore.node.pipeline.out import OUT_TEMPORARY, OutOutput, write_documents
from docstore.node.remote_outputs import RemoteOutputs
from docstore.node.slices import finish_steps, finish_work
from docstore.node.write.driver import effective_concern, wait_for_write
from docstore.optime import OpTime
from docstore.sharding.version import STALE_CODES
from docstore.storage import Family

TEMPORARY = "tmp.mr."
UNFINISHED = "config.mapReduceOutputs"
"""Documents `{_id: temporary namespace, into: target namespace, bypass, [version]}`."""
_BATCH_DOCUMENTS = 500


class MapReduceOutput:
    """The output of one operation into a collection of this node: `begin`, `sink`, then `finish` or `give_up`."""

    def __init__(self, context: Context, output: Output, *, bypass: bool) -> None:
        self._context = context
        self._node = node_of(context)
        self._namespace = output.namespace
        self._replaces = output.mode is Mode.REPLACE
        self._bypass = bypass
        self._temporary = f"{output.database}.{TEMPORARY}{ObjectId()}"
        self._filled = OutOutput(
            self._node, self._namespace, made=self._temporary, like_target=self._replaces, bypass=bypass
        )
        self._handed_over = False

    def check_target(self) -> None:
        """Check that the target can be written.

        Errors: those of a node that takes no writes, CommandNotSupportedOnView, 17152 for a capped one.
        """
        if replicates(self._namespace):
            self._node.replication.check_write()
        check_no_view(self._node.store, self._namespace)
        target = self._node.store.collection(self._namespace)
        if self._replaces and target is not None and target.options.capped:
            raise CommandError(17152, f"{self._namespace} is capped and cannot be replaced")

    async def begin(self) -> None:
        """Create the temporary collection."""
        self._node.outputs.add(self._temporary)
        await self._enter()
        self._filled.begin()

    async def _enter(self) -> None:
        await finish_steps(self._context, enter_write(self._node, self._namespace))

    @property
    def sink(self) -> Sink:
        """Function that receives the results."""
        return self._take

    async def _take(self, documents: list[bytes]) -> None:
        node, context = self._node, self._context
        if not self._replaces and any(document[4] == ARRAY for document in documents):
            raise CommandError(51185, "an array cannot be the _id by which a result finds its document")
        await finish_steps(context, write_documents(node, self._namespace, self._filled, documents))
        await node.pause()
        context.operation.check()

    async def finish(self) -> dict[str, Any] | None:
        """Make the results visible; return the writeConcernError, if any. Errors: those of the target's documents."""
        node, context = self._node, self._context
        concern = effective_concern(context, node)
        if self._replaces:
            await finish_steps(context, enter_change(node, self._namespace))
            self._filled.end()
            last = self._filled.last
        else:
            self._handed_over = True
            last = await let_be_seen(node, self._temporary, self._namespace, bypass=self._bypass)
        node.outputs.discard(self._temporary)
        return await wait_for_write(context, last, concern)

    def give_up(self) -> None:
        """Clean up after a failure; a complete result is merged by the next primary."""
        self._node.outputs.discard(self._temporary)
        if not self._handed_over:
            self._filled.give_up()


async def let_be_seen(
    node: DataNode, temporary: str, namespace: str, *, bypass: bool, version: bytes | None = None
) -> OpTime | None:
    """Rename a complete temporary collection to the target if that does not exist, else merge it.

    `version`: the shard version of a router that takes the target to be unsharded. Return the optime of the last write.
    Errors: see `merge_temporary`; InterruptedDueToReplStateChange for what the next primary merges; those of
    `RemoteOutputs` for results of a router.
    """
    await finish_work(node, enter_change(node, namespace, version))
    store = node.store
    if temporary not in node.outputs:
        node.parts[RemoteOutputs].complete(temporary)
    if store.collection(namespace) is None:
        with store.unit() as unit:
            store.rename_collection(unit, temporary, namespace)
            return unit.commit()
    notes = store.collection(UNFINISHED) or make_collection(store, UNFINISHED)
    with store.unit() as unit:
        version_field = {} if version is None else {"version": RawBSONDocument(version)}
        unit.insert(notes, bson.encode({"_id": temporary, "into": namespace, "bypass": bypass, **version_field}))
        unit.commit()
    node.outputs.add(temporary)
    try:
        return await merge_temporary(node, temporary, namespace, bypass=bypass, version=version)
    except CommandError as error:
        # The next primary merges it: reducing again would count the results twice.
        raise interrupted(error) from error.__cause__
    finally:
        node.outputs.discard(temporary)


async def merge_temporary(
    node: DataNode, temporary: str, namespace: str, *, bypass: bool, version: bytes | None = None
) -> OpTime | None:
    """Merge a recorded temporary collection into the target and drop it; return the last write's optime.

    Merging ends at a document that the target refuses, and if the target is sharded by now or in another database. Then
    the temporary collection is dropped too.

    Errors: the refused document's error, a stale `version`, and not-primary errors; after the latter nothing is
    dropped.
    """
    output = MergeOutput(node, namespace, merging(namespace), bypass=bypass)
    source = node.store.collection(temporary)
    failure: CommandError | None = None
    after = 0

    def merge_some(_owned: Predicate | None, until: float) -> bool:
        nonlocal after, failure
        records = [] if source is None else list(islice(source.records(node.engine, after=after), _BATCH_DOCUMENTS))
        if not records:
            return True
        try:
            written = output.write([raw for _, raw in records], until)
        except WriteConflict:
            raise
        except CommandError as error:
            failure = error
            return True
        after = records[written - 1][0]
        return False

    try:
        await finish_work(node, write_in_slices(node, namespace, Repeated(merge_some, can_wait=True), version))
    except CommandError as error:
        if error.code not in STALE_CODES:
            raise
        failure = error
    await finish_work(node, enter_write(node, temporary))
    with node.store.unit() as unit:
        _forget(node, unit, temporary)
        last = unit.commit()
    if failure is not None:
        raise failure
    return last or output.last


async def finish_left_outputs(node: DataNode) -> None:
    """Finish or drop the outputs of operations of an earlier process or primary."""
    unnoted = [
        namespace
        for namespace in node.store.namespaces()
        if is_temporary(split_namespace(namespace)[1])
        and namespace not in {*_noted(node), *node.outputs}
        and namespace not in node.parts[RemoteOutputs]
    ]
    await merge_noted_outputs(node)
    for namespace in unnoted:
        await _drop(node, namespace)


async def drop_idle_outputs(node: DataNode) -> None:
    """Drop the collections of routers, and of secondaries, that nobody has written to for long."""
    for namespace in node.parts[RemoteOutputs].forget_idle():
        await _drop(node, namespace)


async def _drop(node: DataNode, namespace: str) -> None:
    await finish_work(node, enter_write(node, namespace))
    if node.store.collection(namespace) is not None:
        with node.store.unit() as unit:
            node.store.drop_collection(unit, namespace)
            unit.commit()


async def merge_noted_outputs(node: DataNode) -> None:
    """Merge recorded outputs whose operation ended before; a failed step-down ends some, too."""
    for temporary, note in _noted(node).items():
        if temporary in node.outputs:
            continue
        try:
            version = bson.encode(note["version"]) if "version" in note else None
            await merge_temporary(node, temporary, note["into"], bypass=note["bypass"], version=version)
        except CommandError:
            node.replication.check_write()  # otherwise a document was refused: the client got that error


def is_temporary(collection: str) -> bool:
    """Return True for the name of a temporary collection, which only operations make, for their results."""
    if collection.startswith(TEMPORARY) or is_unconverted(collection):
        return True
    if not collection.startswith(OUT_TEMPORARY):
        return False
    try:
        return str(UUID(collection.removeprefix(OUT_TEMPORARY))) == collection.removeprefix(OUT_TEMPORARY)
    except ValueError:
        return False


def _noted(node: DataNode) -> dict[str, dict[str, Any]]:
    """Return the records in `UNFINISHED` by temporary collection."""
    collection = node.store.collection(UNFINISHED)
    if collection is None:
        return {}
    documents = map(document_to_python, node.engine.values(Family.RECORDS, collection.prefix, collection.end))
    return {note["_id"]: note for note in documents if _is_note(note)}


def _is_note(note: dict[str, Any]) -> bool:
    """True for a record as `merge_note` makes it: it names a temporary collection and the target of its documents."""
    temporary, into = note.get("_id"), note.get("into")
    return (
        isinstance(temporary, str)
        and is_temporary(split_namespace(temporary)[1])
        and isinstance(into, str)
        and isinstance(note.get("bypass"), bool)
    )


def _forget(node: DataNode, unit: WriteUnitOfWork, temporary: str) -> None:
    """Drop the temporary collection with its record, and `UNFINISHED` itself when it is empty."""
    if node.store.collection(temporary) is not None:
        node.store.drop_collection(unit, temporary)
    notes = node.store.collection(UNFINISHED)
    if notes is None:
        return
    records = list(notes.records(node.engine))
    if len(records) == 1:
        node.store.drop_collection(unit, UNFINISHED)
        return
    for record_id, raw in records:
        if document_to_python(raw)["_id"] == temporary:
            unit.remove(notes, record_id, raw)
