"""createIndexes: build indexes over a collection that stays writable; all become usable at once.

The build scans the collection in slices. Documents written meanwhile are indexed in their own write unit. The last step
checks uniqueness and commits. A node that stops being primary abandons the build.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any
from uuid import UUID

from docstore.collection.catalog.ddl import too_many
from docstore.collection.collection import Collection
from docstore.collection.index.conflicts import is_among
from docstore.collection.index.options import document_text, refused
from docstore.collection.index.spec import (
    MAX_INDEXES,
    IndexSpec,
    check_no_compound_wildcard,
    no_such_cluster,
    parse_index_spec,
)
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import CREATE_INDEXES
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.ddl.catalog_changes import change, enter_change, make_collection
from docstore.node.ddl.commit_quorum import VOTERS, concern_of, wait_for_quorum
from docstore.node.ddl.shard_key_rules import check_new_indexes, shard_key_of
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.limits import MAX_CACHED_SPEC_BYTES
from docstore.node.node import node_of
from docstore.node.slices import Steps, finish_apart, finish_steps
from docstore.node.timeseries.indexes import bucket_spec
from docstore.node.timeseries.series import series_of
from docstore.node.upkeep.catalog_audit import ABORTED, STARTED, SUCCEEDED, note_index_builds
from docstore.node.write.driver import check_writable
from docstore.query.pausing import PAUSED, allowing
from docstore.query.value.collation import Collation

_known_spec = lru_cache(maxsize=128)(parse_index_spec)


async def run(context: Context, arguments: Arguments) -> Result:
    check_writable(context.namespace)
    ignore_unknown = arguments["ignoreUnknownIndexOptions"]
    node = node_of(context)
    raw_specs = arguments["indexes"]
    if len(set(raw_specs)) > MAX_INDEXES:  # before any is parsed, and compared with all others
        raise too_many(context.namespace)
    series = series_of(node.store, context.namespace)
    if series is not None:
        raw_specs = [bucket_spec(series, raw) for raw in raw_specs]
        context = context.about(series.buckets.ns)
    existing = node.store.collection(context.namespace)
    collation = None if existing is None else existing.collation
    specs = [_spec(raw, ignore_unknown, collation) for raw in raw_specs]
    if not context.services.switches.face.has_compound_wildcards:
        check_no_compound_wildcard(specs)
    if not specs:
        raise CommandError(Code.BadValue, "Must specify at least one index to create")
    if existing is None and any(spec.clustered for spec in specs):
        raise CommandError(6100900, "Cannot implicitly create a new collection with createIndex 'clustered' option")
    quorum = arguments["commitQuorum"]
    concern = None if quorum is None else concern_of(context, quorum)
    if any(spec.unique for spec in specs):
        check_new_indexes(await shard_key_of(node, context.namespace), specs)
    collection, created, missing_specs = await _enter(context, specs)
    before = len(collection.counted_indexes)
    reply: dict[str, Any] = {"numIndexesBefore": before, "numIndexesAfter": before + len(missing_specs)}
    if missing_specs or created:
        reply["createdCollectionAutomatically"] = created
    if not missing_specs:
        reply["note"] = "all indexes already exist"
        return await change(context, reply, lambda unit: None)
    if node.replication.set_name is not None and collection.replicates:
        reply["commitQuorum"] = VOTERS if quorum is None else quorum
    if node.transaction is not None:
        node.transaction.check_new_index(collection)
    if len(missing_specs) < len(specs):
        reply["note"] = "index already exists"
    note_index_builds(context, collection.ns, missing_specs, STARTED)
    try:
        if collection.count == 0:
            target = collection
            done = await change(context, reply, lambda unit: _create(context, unit, target, missing_specs))
        else:
            done = await _build(context, collection, missing_specs, reply)
    except BaseException:
        note_index_builds(context, collection.ns, missing_specs, ABORTED)
        raise
    note_index_builds(context, collection.ns, missing_specs, SUCCEEDED)
    if concern is not None:
        await wait_for_quorum(context, concern)
    return done


def _spec(raw: bytes, ignore_unknown: bool, collation: Collation | None) -> IndexSpec:
    """Parse an index specification, cached because applications repeat them at each start.

    Errors: those of `parse_index_spec`.
    """
    if len(raw) <= MAX_CACHED_SPEC_BYTES:
        return _known_spec(raw, ignore_unknown=ignore_unknown, default_collation=collation)
    return allowing(PAUSED, lambda: parse_index_spec(raw, ignore_unknown=ignore_unknown, default_collation=collation))


class Builds(dict[tuple[UUID, str], asyncio.Event]):
    """Index builds in progress, a part of a node: by collection and index name, each with the event of its end."""


def _builds(context: Context) -> Builds:
    builds: Builds = node_of(context).parts.setdefault(Builds, Builds())
    return builds


async def _enter(context: Context, specs: list[IndexSpec]) -> tuple[Collection, bool, list[IndexSpec]]:
    """Return (the collection, True if it was just created, the missing indexes), after builds of these have ended.

    Errors: those of `missing`.
    """
    store, builds = node_of(context).store, _builds(context)
    while True:
        await enter_change(context)
        existing_collection = store.collection(context.namespace)
        collection = existing_collection or make_collection(store, context.namespace)
        missing_specs = missing(collection, specs)
        running_builds = [
            build for spec in missing_specs if (build := builds.get((collection.uuid, spec.name))) is not None
        ]
        if not running_builds:
            return collection, existing_collection is None, missing_specs
        await finish_steps(context, _ended(running_builds[0]))


def _ended(build: asyncio.Event) -> Steps[None]:
    yield build.wait()


def missing(collection: Collection, specs: list[IndexSpec]) -> list[IndexSpec]:
    """Return the specifications that the collection does not have yet.

    Errors: those of `is_among`; for a duplicate IndexAlreadyExists (OperationFailed if there are documents); 6100906,
    6243700 for conflicts with the clustered index.
    """
    missing_specs: list[IndexSpec] = []
    own = collection.id_index.spec
    for spec in specs:
        if spec.is_id:
            if spec.clustered and not own.clustered:
                raise no_such_cluster(spec.raw)
            if spec.collation != own.collation:
                raise CommandError(Code.BadValue, "The _id index must have the same collation as the collection")
            continue
        if own.clustered and spec.name == own.name:
            reason = (
                "Cannot create an index where the name matches the clusteredIndex but the key does not - indexSpec: "
                f"{document_text(spec.raw)}, clusteredIndex: {document_text(own.raw)}"
            )
            raise refused(spec.raw, reason, 6100906)
        if spec in missing_specs or is_among(spec, missing_specs):
            raise CommandError(
                Code.OperationFailed if collection.count else Code.IndexAlreadyExists,
                f"Identical index already exists: {spec.name}",
            )
        if not is_among(spec, (index.spec for index in collection.indexes.values())):
            missing_specs.append(spec)
    return missing_specs


def _create(context: Context, unit: WriteUnitOfWork, collection: Collection, specs: list[IndexSpec]) -> None:
    for spec in missing(collection, specs):
        node_of(context).store.create_index(unit, collection, spec)


async def _build(
    context: Context, collection: Collection, specs: list[IndexSpec], reply: dict[str, Any]
) -> dict[str, Any]:
    node = node_of(context)
    build = node.store.build_index(collection, specs)
    builds, ended = _builds(context), asyncio.Event()
    builds.update({(collection.uuid, spec.name): ended for spec in specs})

    def step(_owned: Predicate | None, until: float) -> bool:
        built = build.step(until)
        done, total = build.progress
        context.operation.progress = {"msg": "Index Build", "progress": {"done": done, "total": total}}
        return built

    def finish(unit: WriteUnitOfWork) -> None:
        missing(collection, specs)  # other builds may have finished meanwhile
        build.finish(unit)

    try:
        steps = write_in_slices(node, context.namespace, Repeated(step))
        await finish_apart(context, steps)
        return await change(context, reply, finish)
    except BaseException:
        build.abort()
        raise
    finally:
        for spec in specs:
            del builds[collection.uuid, spec.name]
        ended.set()


COMMAND = CREATE_INDEXES.command(run)
