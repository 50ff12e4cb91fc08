"""The TTL monitor: the primary deletes expired documents by ordinary deletes.

* A document expires `expireAfterSeconds` after the earliest date under a TTL index; in a clustered collection with that
  option, after the date in its `_id`. A bucket of measurements expires with its last measurement. Values other than
  dates never expire.
* Each slice rechecks primary state, owned ranges and indexes.
* Collections without a TTL index are only listed.
"""

from __future__ import annotations

from docstore.bson.limits import LONG_MIN
from docstore.bson.walk import DATE, OBJECT_ID
from docstore.collection.collection import Collection, Index
from docstore.errors import CommandError
from docstore.kernel.keys.bounds import prefix_end
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import long_of
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.node import DataNode
from docstore.node.slices import finish_work
from docstore.node.upkeep.periodic import PeriodicTask
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Comparison, Op
from docstore.query.plan.intervals import Range, compound
from docstore.query.plan.value_ranges import class_range
from docstore.storage import Family

_UNIT_DOCUMENTS = 50
"""Documents that are deleted together: about one step's work."""
_ENTRIES_PER_LOOK = 64
"""Index entries that are read between two looks at the clock."""


class TtlMonitor(PeriodicTask):
    """Runs the passes of a node; `node.expiry` holds its settings and counters."""

    name = "TTL monitor"

    def interval(self) -> float | None:
        expiry = self._node.expiry
        return expiry.sleep_seconds if expiry.enabled else None

    async def run_pass(self) -> None:
        """Delete all expired documents; nothing on a node that is not primary."""
        for collection in list(self._node.store.catalog.collections.values()):
            for index in list(collection.indexes.values()):
                if expire_seconds(collection, index) is not None and not index.spec.hashed:
                    await self._expire(collection, index)
        self._node.expiry.passes += 1

    async def _expire(self, collection: Collection, index: Index) -> None:
        node = self._node
        doomed = ExpiredDocuments(node, collection, index)

        def remove(owned: Predicate | None, until: float) -> bool:
            if not self._may_delete(collection, index):
                return True
            documents = doomed.next_documents(owned, until)
            if documents:
                with node.store.unit() as unit:
                    for rid, raw in documents.items():
                        unit.remove(collection, long_of(rid), raw)
                    unit.commit()
                node.expiry.deleted += len(documents)
            doomed.advance()
            return doomed.at_end

        try:
            await finish_work(node, write_in_slices(node, collection.ns, Repeated(remove, can_wait=True)))
        except CommandError:
            if self._may_delete(collection, index):
                raise

    def _may_delete(self, collection: Collection, index: Index) -> bool:
        node = self._node
        try:
            node.replication.check_write()
        except CommandError:
            return False
        current = node.store.collection(collection.ns)
        return current is collection and collection.indexes.get(index.name) is index and node.expiry.enabled


def expire_seconds(collection: Collection, index: Index) -> int | None:
    """Return the lifetime in seconds of documents under the index; None if it is no TTL index."""
    return collection.options.expire_after if index.is_id else index.spec.expire_after


class ExpiredDocuments:
    """The expired documents of one collection by one index, for one pass: each index entry is read once.

    `next_documents` returns some of them; `advance` moves behind these once they are deleted.
    """

    def __init__(self, node: DataNode, collection: Collection, index: Index) -> None:
        seconds = expire_seconds(collection, index) or 0
        limit_ms = int(node.wall_clock() * 1000) - seconds * 1000
        limit = (DATE, max(limit_ms, LONG_MIN).to_bytes(8, "little", signed=True))
        definition = collection.options.timeseries
        if definition is None:
            path, direction = index.fields[0]
            dates = Range(class_range(DATE).lo, prefix_end(encode_key(limit)))
            ((low, high),), _ = compound([((dates,), direction)], 1)
        else:
            # Buckets expire as a whole, with their last measurement; their `_id` has the time of the first.
            path = f"control.max.{definition.time_field}"
            oldest = max(limit_ms // 1000, 0).to_bytes(4, "big") + b"\xff" * 8
            low, high = class_range(OBJECT_ID).lo, prefix_end(encode_key((OBJECT_ID, oldest)))
        self.at_end = False
        self._node = node
        self._collection = collection
        self._index = index
        self._matches = compile_filter(Comparison(path, Op.LTE, limit)).matches
        self._from = index.prefix + low
        self._end = index.prefix + high
        self._next = self._from
        self._is_last = False

    def next_documents(self, owned: Predicate | None, until: float) -> dict[bytes, bytes]:
        """Return documents by record id, at most as many as a unit deletes, until `until`."""
        node, collection, index = self._node, self._collection, self._index
        documents: dict[bytes, bytes] = {}
        self._is_last = False
        for count, (key, value) in enumerate(node.engine.items(Family.INDEXES, self._from, self._end), 1):
            self._next = key + b"\0"
            rid = index.record_id(key, value)
            raw = node.engine.get(Family.RECORDS, collection.prefix + rid)
            assert raw is not None, f"{collection.ns}: an index leads to no record"
            if self._matches(raw) and (owned is None or owned.matches(raw)):
                documents[rid] = raw
                if len(documents) == _UNIT_DOCUMENTS:
                    return documents
            if count % _ENTRIES_PER_LOOK == 0 and node.clock() >= until:
                return documents
        self._is_last = True
        return documents

    def advance(self) -> None:
        """Move behind the entries that were read; `at_end` tells if they were the last."""
        self._from = self._next
        self.at_end = self._is_last
