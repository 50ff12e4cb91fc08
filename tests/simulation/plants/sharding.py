"""Planted bugs of shards: ownership, migrations, and what must be the same on all owners."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_DONOR = "docstore.sharding.donor:Donor._moved"
_FILTER = "mongod.migration.shard_filter"

PLANTS = (
    Plant(
        "writes go on in the critical section",
        "handover",
        _DONOR,
        "State.CRITICAL, BlockWrites(), SendChanges(majority=False)",
        "State.CRITICAL, SendChanges(majority=False)",
    ),
    Plant(
        "secondaries read on while the owner changes",
        "handover-secondaries",
        _DONOR,
        "return self._to(State.ANNOUNCING, BlockReads(), PersistBlock())",
        "return self._to(State.COMMITTING, BlockReads(), CommitOnConfig())",
    ),
    Plant(
        "a secondary reads by a routing before it knows what is committed",
        "handover-uncommitted",
        "mongod.migration.shard_filter:RangeShardFilter._catch_up",
        'committed = OpTime.from_document(last_write["majorityOpTime"])',
        "committed = OpTime(written.term, 0)",
    ),
    Plant(
        "the rest of the changes is not sent",
        "handover",
        _DONOR,
        "return self._to(State.CRITICAL, BlockWrites(), SendChanges(majority=False))",
        "self._to(State.CRITICAL); return self._to(State.HANDING_OVER, BlockWrites(), CommitRecipient())",
    ),
    Plant(
        "changes during the clone are not captured",
        "handover",
        "mongod.migration.donor.capture:Capture._add",
        "self._ids[key] = value",
        "return",
    ),
    Plant(
        "deletions during the clone are not captured",
        "handover",
        "mongod.migration.donor.capture:Capture._committed",
        'change.op not in "iud"',
        'change.op not in "iu"',
    ),
    Plant(
        "a stale version is served",
        "handover",
        f"{_FILTER}:RangeShardFilter._check",
        "if received.routes_like(known.version):",
        "if True:",
    ),
    Plant(
        "a statement ends where the routing was forgotten in its midst",
        "handover-many",
        "mongod.migration.statements:Hold.kept",
        "now = self._now()",
        "try:\n        now = self._now()\n    except Exception:\n        return False",
    ),
    Plant(
        "what a statement over many gives back is passed over",
        "handover-many",
        "docstore.node.write.search:_PlainSearch.give_back",
        "self.exhausted = False",
        "pass",
    ),
    Plant(
        "who moves a chunk is not told of many deletions at once",
        "handover-many",
        "docstore.collection.unit_of_work:WriteUnitOfWork.remove_each",
        'self._changes += [Change(coll.ns, "d", before, None, self.from_migrate) for before in befores]',
        "pass",
    ),
    Plant(
        "orphans are shown",
        "handover",
        f"{_FILTER}:_filter_of",
        "if routing.collection is None:",
        "if True:",
    ),
    Plant(
        "a recipient makes no indexes",
        "ddl-moves",
        "mongod.migration.recipient.preparation:build_indexes",
        "if not missing:",
        "if True:",
    ),
    Plant(
        "nobody is asked again where a document may have moved",
        "handover",
        "mongos.routing.progress:Progress.end_round",
        "return not self.found",
        "return False",
    ),
    Plant(
        "a chunk comes back before its leftovers are gone",
        "handover",
        "docstore.sharding.recipient:Recipient._start",
        "incoming.begin(AwaitDeletions(event.migration), out)",
        "incoming.begin(ReadRouting(event.migration), out)",
    ),
    Plant(
        "a range is deleted while its move is undecided",
        "handover",
        "mongod.migration.deletions:RangeDeleter._next",
        "if each.pending or",
        "if",
    ),
    Plant(
        "a rename drops a shard's part",
        "ddl-primaries",
        "mongod.ddl.renames:rename",
        "store.rename_collection(unit, source, target, drop_target=True)",
        "store.drop_collection(unit, source)",
    ),
    Plant(
        "a donor's next primary forgets the move",
        "moves-moments",
        "mongod.migration.shard:Shard._new_term",
        "for coordinator in self.records.coordinators():",
        "for coordinator in ():",
    ),
    Plant(
        "a donor's next primary takes the move for aborted",
        "moves-moments",
        "docstore.sharding.donor:Donor.resume",
        "return [BlockWrites(), BlockReads(), AskConfig()]",
        'return self._decide(Decision.ABORTED, "taken up")',
    ),
    Plant(
        "a recipient's next primary keeps what was given up",
        "moves-moments",
        "docstore.sharding.recipient:Recipient._resolve",
        "change = replace(event.deletion, pending=False, delayed=False)",
        "change = replace(event.deletion, pending=False, delayed=False) if ended else event.deletion.id",
    ),
    Plant(
        "a recipient notes too late what it may have to delete",
        "moves-moments",
        "mongod.migration.recipient.driver:RecipientDriver._outcome",
        "await shard.records.committed(shard.records.write_deletion(deletion))",
        "pass",
    ),
    Plant(
        "a document leaves its shard by an update",
        "handover",
        "docstore.sharding.post_images:PostImages.check_change",
        "if not self._owns(after):",
        "if False:",
    ),
    Plant(
        "chunks go to a shard that is drained",
        "drain",
        "docstore.sharding.balance:choose_route",
        "[shard.name for shard in shards if not shard.draining]",
        "[shard.name for shard in shards]",
    ),
    Plant(
        "a shard that owns chunks is removed",
        "drain",
        "configsvr.commands.remove_shard:run",
        "elif not chunks and not databases:",
        "elif not databases:",
    ),
)
