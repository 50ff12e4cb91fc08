"""Initial sync: copying all data of another member (rule 19).

1. `initialSyncFlag` is made durable: a process killed from here on starts over.
2. Everything except `local` is dropped, including the oplog; the rollback id grows if there was one.
3. The source's rollback id is recorded, and the entry to start from: its last entry, or the first entry of the
   transaction that this belongs to, or of a prepared one. From there its oplog is fetched in parallel to the next steps
   (`docstore.replicaset.sync.oplog_fetch`).
4. Every collection is cloned with its uuid, options and indexes; again if the source was briefly unreachable. Then the
   session rows are copied.
5. The fetched entries are applied, from the recorded one to the source's position after the clone. Cloned documents are
   already ahead of some of them, so they are applied tolerantly; at the end the copy is exact. A voter continues to the
   primary's position: it may have lost its disk, and has acknowledged entries that its source need not have.
6. If the source has rolled back meanwhile, the attempt fails. Otherwise the flag is cleared. The end of the copy is
   recorded until it is committed, because these entries have no undo records.

A collection renamed during the clone fails the attempt too: it may have been missed under both names.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import bson
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion

from docstore.bson import document_to_python, get_field
from docstore.bson.build import bytes_of
from docstore.collection.catalog.options import NO_OPTIONS, CollectionOptions, parse_options
from docstore.collection.index.spec import parse_index_spec
from docstore.collection.oplog.oplog import COUNTERS_KEY, END_KEY, MIN_KEY, entry_optime
from docstore.collection.store import mode_of
from docstore.errors import Code, CommandError
from docstore.key_layout import PRE_IMAGE_PREFIX, PREPARED_PREFIX, SESSION_PREFIX, after_prefix
from docstore.log import component
from docstore.namespace import replicates
from docstore.net.errors import NetworkError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync.apply import SLICE_SECONDS, Applier
from docstore.replicaset.sync.oplog_fetch import OUTAGE_SECONDS, RETRY_SECONDS, AttemptFailed, OplogFetch
from docstore.replicaset.sync.progress import CollectionProgress, SyncProgress
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replicaset.sync.session_rows import copy_rows, log_begin
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.store import Store

LOG = component("INITSYNC")
DOCUMENTS_PER_LOOK = 64
_CURSOR_LOST = (Code.CursorNotFound, Code.QueryPlanKilled, Code.InterruptedAtShutdown, Code.ShutdownInProgress)
_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, uuid_representation=UuidRepresentation.STANDARD
)


class InitialSync:
    """One attempt from one source."""

    def __init__(
        self,
        store: Store,
        local: LocalState,
        remote: RemoteMember,
        *,
        flush: Callable[[], Awaitable[None]],
        clock: Callable[[], float],
        progress: SyncProgress,
        directory: Path,
        counts: Callable[[OpTime], bool],
    ) -> None:
        """`directory`: where the source's oplog is kept meanwhile.

        `counts(last)`: True if a copy that ends at `last` suffices.
        """
        self._counts = counts
        self._directory = directory
        self._reached = clock()
        self._gone: set[UUID] = set()
        self._store = store
        self._local = local
        self._remote = remote
        self._flush = flush
        self._clock = clock
        self._applier = Applier(
            store, clock=clock, wall_clock=progress.wall_clock, progressed=lambda: None, counts=remote.counts
        )
        self._progress = progress

    async def run(self) -> None:
        """Run the attempt. Errors: NetworkError, CommandError, AttemptFailed; the next attempt starts over."""
        self._progress.begin(self._remote.address)
        LOG.info("Starting initial sync", source=self._remote.address, attempt=self._progress.attempts)
        self._local.write_initial_sync(True)
        if self._store.last_optime != NULL_OPTIME:
            # Members that copy from this one must notice that its oplog was replaced.
            self._local.raise_rollback_id()
        await self._flush()
        self._clear()
        rollback_id = await self._remote.rollback_id()
        begin = await log_begin(self._remote)
        if begin is None:
            raise AttemptFailed("the source has no oplog")
        self._progress.log_begin = begin
        fetch = OplogFetch(self._remote, begin, self._directory, self._clock)
        try:
            await self._clone_all(fetch)
            await copy_rows(self._store, self._remote)
            await self._apply(begin, fetch)
        except OSError as error:
            raise AttemptFailed(f"the source's log cannot be kept: {error}") from error
        finally:
            await fetch.close()
            await self._remote.kill_unfinished()
        if await self._remote.rollback_id() != rollback_id:
            raise AttemptFailed("the source has rolled back during the initial sync")
        await self._flush()
        self._local.write_initial_sync(False, copied_until=self._store.last_optime)
        await self._flush()
        LOG.info(
            "Initial sync done",
            source=self._remote.address,
            documents=self._progress.documents,
            applied=self._progress.applied,
            lastEntry=str(self._store.last_optime),
        )

    async def _clone_all(self, fetch: OplogFetch) -> None:
        before = await self._list_collections()
        LOG.info("Initial sync: cloning", collections=len(before))
        self._progress.to_clone.update(namespace.partition(".")[0] for namespace, _, _ in before)
        for database in self._progress.to_clone:
            stats = await self._remote.command(database, {"dbStats": 1})
            self._progress.total_bytes += int(document_to_python(stats)["dataSize"])
        for namespace, options, uuid in before:
            await self._clone_until_done(fetch, namespace, options, uuid)
            self._progress.end_clone(namespace)
        names = {uuid: namespace for namespace, _, uuid in before}
        for namespace, _, uuid in await self._list_collections():
            if names.get(uuid, namespace) != namespace or uuid in self._gone:
                raise AttemptFailed(f"{names[uuid]} was renamed while it was cloned, and is {namespace}")

    async def _clone_until_done(
        self, fetch: OplogFetch, namespace: str, options: CollectionOptions, uuid: UUID
    ) -> None:
        """Clone a collection; retry for some seconds if the source was unreachable or has lost the cursor."""
        began = self._clock()
        while True:
            fetch.check()
            try:
                await self._clone(namespace, options, uuid)
            except (NetworkError, CommandError) as error:
                if isinstance(error, CommandError) and error.code == Code.NamespaceNotFound:
                    # Its oplog entries, ending with its drop, then find nothing.
                    self._gone.add(uuid)
                    return
                lost = isinstance(error, NetworkError) or error.code in _CURSOR_LOST
                if not lost or self._clock() - max(began, self._reached) > OUTAGE_SECONDS:
                    raise
                LOG.info("Initial sync: a collection is cloned again", ns=namespace, reason=str(error))
            else:
                LOG.debug("Initial sync: collection cloned", ns=namespace)
                return
            await self._remote.kill_unfinished()
            if self._store.collection(namespace) is not None:
                with self._store.unit(replicated=False) as unit:
                    self._store.drop_collection(unit, namespace)
                    unit.commit()
            await asyncio.sleep(RETRY_SECONDS)

    def _clear(self) -> None:
        store = self._store
        assert store.oplog is not None
        for database in store.databases():
            if database != "local":
                with store.unit(replicated=False) as unit:
                    store.drop_database(unit, database)
                    unit.commit()
        batch = Batch()
        batch.delete_range(Family.OPLOG, MIN_KEY, END_KEY)
        batch.delete_range(Family.UNDO, MIN_KEY, END_KEY)
        for prefix in (SESSION_PREFIX, PREPARED_PREFIX, PRE_IMAGE_PREFIX):
            batch.delete_range(Family.META, prefix, after_prefix(prefix))
        batch.delete(Family.META, COUNTERS_KEY)
        store.engine.write(batch)
        store.oplog.load()
        store.sessions.forget()

    async def _list_collections(self) -> list[tuple[str, CollectionOptions, UUID]]:
        """Return the source's collections. Views are included through their definitions in `system.views`."""
        collections = []
        reply = await self._remote.command("admin", {"listDatabases": 1, "nameOnly": True})
        for database in document_to_python(reply)["databases"]:
            name = database["name"]
            if name == "local":
                continue
            async for batch in self._remote.cursor(name, {"listCollections": 1, "cursor": {}}):
                for raw in batch:
                    entry = bson.decode(raw, _CODEC)
                    kind = entry.get("type", "collection")
                    if kind in ("view", "timeseries"):
                        continue
                    if kind != "collection":
                        raise AttemptFailed(f"{name}.{entry['name']} is a {kind}, which cannot be cloned")
                    namespace, options = f"{name}.{entry['name']}", get_field(raw, "options")
                    if replicates(namespace):
                        parsed_options = NO_OPTIONS if options is None else parse_options(options[1])
                        collections.append((namespace, parsed_options, entry["info"]["uuid"]))
        return collections

    async def _clone(self, namespace: str, options: CollectionOptions, uuid: UUID) -> None:
        database, _, name = namespace.partition(".")
        progress = self._progress.clone(namespace)
        if options.family is not None or options.keyspace is not None:
            await self._clone_rows(namespace, options, uuid, progress)
            return
        specs = []
        async for batch in self._remote.cursor(database, {"listIndexes": name, "cursor": {}}):
            specs += [parse_index_spec(raw) for raw in batch if get_field(raw, "clustered") is None]
        progress.indexes = len(specs)
        stats = document_to_python(await self._remote.command(database, {"collStats": name}))
        progress.documents_to_copy, progress.bytes_to_copy = int(stats["count"]), int(stats["size"])
        with self._store.unit(replicated=False) as unit:
            collection = self._store.create_collection(unit, namespace, options, uuid=uuid)
            for spec in specs:
                if spec.name not in collection.indexes:
                    self._store.create_index(unit, collection, spec)
            unit.commit()
        async for batch in self._remote.cursor(database, {"find": name}):
            await self._insert(collection, batch)
            progress.copied(len(batch), bytes_of(batch))

    async def _clone_rows(
        self, namespace: str, options: CollectionOptions, uuid: UUID, progress: CollectionProgress
    ) -> None:
        """Create a column family, or the marker of a keyspace, and copy its rows."""
        with self._store.unit(replicated=False) as unit:
            collection = self._store.create_collection(unit, namespace, options, uuid=uuid)
            unit.commit()
        if options.family is None:
            return
        mode = mode_of(self._store, collection)
        request = mode.page_request(collection.name, None)
        while request is not None:
            raw = await self._remote.command(collection.database, request)
            page = document_to_python(raw)
            with self._store.unit(replicated=False) as unit:
                progress.copied(mode.store_page(unit, collection, page), len(raw))
                unit.commit()
            request = mode.page_request(collection.name, page)
            await asyncio.sleep(0)

    async def _insert(self, collection: Collection, documents: list[bytes]) -> None:
        done = 0
        while done < len(documents):
            until = self._clock() + SLICE_SECONDS
            with self._store.unit(replicated=False, trims=False) as unit:
                while done < len(documents):
                    for raw in documents[done : done + DOCUMENTS_PER_LOOK]:
                        unit.insert(collection, raw)
                    done = min(done + DOCUMENTS_PER_LOOK, len(documents))
                    if self._clock() >= until:
                        break
                unit.commit()
            await asyncio.sleep(0)
        self._reached = self._clock()

    async def _apply(self, begin: OpTime, fetch: OplogFetch) -> None:
        """Apply entries from `begin`, inclusive, to the source's present end, and on until the copy counts."""
        batches, entries = fetch.batches(), list[bytes]()
        self._progress.log_end = stop = await self._end_of_source(begin)
        LOG.info("Initial sync: applying the log", begin=str(begin), end=str(stop))
        moved = self._clock()
        while True:
            while self._store.last_optime < stop:
                entries = entries or await anext(batches)
                # Later entries are left to the follower, which can undo them.
                count = bisect_right(entries, stop, key=entry_optime)
                if entries and not count:
                    raise AttemptFailed("the source's log no longer holds its end")
                await self._applier.apply(entries[:count], tolerant=True)
                self._progress.applied += count
                entries, moved = entries[count:], self._clock()
            if self._counts(self._store.last_optime):
                return
            LOG.info("Initial sync: the primary may hold what we acknowledged before", lastEntry=str(stop))
            if self._clock() - moved > OUTAGE_SECONDS:
                raise AttemptFailed("the source holds less than the primary, or there is none")
            await asyncio.sleep(RETRY_SECONDS)
            fetch.check()
            self._progress.log_end = stop = await self._end_of_source(begin)

    async def _end_of_source(self, begin: OpTime) -> OpTime:
        last = await self._remote.last_optime()
        if last is None or last < begin:
            raise AttemptFailed("the source's oplog has been cut")
        return last
