"""Documents of TTL indexes are deleted when they have expired, by ordinary deletions of the primary.

A document has expired when a date under the index, the earliest where there are several, is `expireAfterSeconds` in the
past; in a clustered collection with that option, when its `_id` is. A bucket of measurements has when all of them have.
Values that are no dates never expire. Each slice
checks again who is primary, which ranges are owned and which indexes there are. Collections without a TTL index cost
nothing but being listed.
"""

from __future__ import annotations

from docstore.bson.walk import DATE, OBJECT_ID
from docstore.collection.collection import Collection, Index
from docstore.errors import CommandError
from docstore.kernel.keys.bounds import behind
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

_UNIT_DOCUMENTS = 100
_LEAST_DATE_MS = -(1 << 63)


class TtlMonitor(PeriodicTask):
    """Runs the passes of a node; `node.expiry` holds its settings and counters."""

    name = "TTL monitor"

    def interval(self) -> float | None:
        expiry = self._node.expiry
        return expiry.sleep_seconds if expiry.enabled else None

    async def run_pass(self) -> None:
        """Delete whatever is over now; nothing on a node that is not primary."""
        for collection in list(self._node.store.catalog.collections.values()):
            for index in list(collection.indexes.values()):
                if expire_seconds(collection, index) is not None and not index.spec.hashed:
                    await self._expire(collection, index)
        self._node.expiry.passes += 1

    async def _expire(self, collection: Collection, index: Index) -> None:
        node = self._node

        def remove(owned: Predicate | None, until: float) -> bool:
            if not self._may_delete(collection, index):
                return True
            while node.clock() < until:
                if self._remove_some(collection, index, owned) < _UNIT_DOCUMENTS:
                    return True
            return False

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

    def _remove_some(self, collection: Collection, index: Index, owned: Predicate | None) -> int:
        """Remove some of what is over in one unit; fewer than a unit's documents when nothing is left."""
        node = self._node
        doomed = over(collection, index, int(node.wall_clock() * 1000), node, owned)
        if doomed:
            with node.store.unit() as unit:
                for rid, raw in doomed.items():
                    unit.remove(collection, long_of(rid), raw)
                unit.commit()
            node.expiry.deleted += len(doomed)
        return len(doomed)


def expire_seconds(collection: Collection, index: Index) -> int | None:
    """After how many seconds the documents of an index expire; None: never."""
    return collection.options.expire_after if index.is_id else index.spec.expire_after


def over(
    collection: Collection, index: Index, now_ms: int, node: DataNode, owned: Predicate | None
) -> dict[bytes, bytes]:
    """Record id -> document, for some documents whose time is over."""
    seconds = expire_seconds(collection, index)
    if seconds is None:
        return {}
    limit_ms = now_ms - seconds * 1000
    limit = (DATE, max(limit_ms, _LEAST_DATE_MS).to_bytes(8, "little", signed=True))
    definition = collection.options.timeseries
    if definition is None:
        path, direction = index.fields[0]
        dates = Range(class_range(DATE).lo, behind(encode_key(limit)))
        ((low, high),), _ = compound([((dates,), direction)], 1)
    else:
        # Buckets expire as a whole, when their last measurement has; where they begin stands in `_id`.
        path = f"control.max.{definition.time_field}"
        oldest = max(limit_ms // 1000, 0).to_bytes(4, "big") + b"\xff" * 8
        low, high = class_range(OBJECT_ID).lo, behind(encode_key((OBJECT_ID, oldest)))
    matches = compile_filter(Comparison(path, Op.LTE, limit))
    found: dict[bytes, bytes] = {}
    for key, value in node.engine.items(Family.INDEXES, index.prefix + low, index.prefix + high):
        rid = index.record_id(key, value)
        raw = node.engine.get(Family.RECORDS, collection.prefix + rid)
        assert raw is not None, f"{collection.ns}: an index leads to no record"
        if matches.matches(raw) and (owned is None or owned.matches(raw)):
            found[rid] = raw
            if len(found) == _UNIT_DOCUMENTS:
                break
    return found
