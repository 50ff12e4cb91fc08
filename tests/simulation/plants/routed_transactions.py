"""Planted bugs of transactions over several shards: votes, decisions, who is told of them, what snapshots show."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_DRIVER = "mongod.transactions.driver:CommitDriver"
_COORDINATORS = "mongod.transactions.coordinators:CommitCoordinators"
_ENDINGS = "docstore.node.transactions.endings:TransactionEndings"
_REGISTRY = "docstore.node.transactions.registry:TransactionRegistry"

PLANTS = (
    Plant(
        "a decision is told before a majority has it",
        "routed-transactions-steps",
        f"{_DRIVER}.run",
        "self.commitment = self.commitment.decided(decision)\n            await self._write(",
        "self.commitment = self.commitment.decided(decision)\n            self._shard.records.write(",
    ),
    Plant(
        "a participant votes before a majority has that it is prepared",
        "routed-transactions-steps",
        f"{_ENDINGS}._prepare",
        "failed = yield wait_for_write(context, optime, effective_concern(context, node))",
        "failed = None",
    ),
    Plant(
        "a commit goes against the vote of a participant",
        "routed-transactions",
        f"{_DRIVER}._vote",
        "if len(timestamps) < len(votes):",
        "if not timestamps:",
    ),
    Plant(
        "each participant commits as of when it was prepared",
        "routed-transactions",
        f"{_ENDINGS}._commit_prepared",
        "self._sessions.decide(transaction, commit_timestamp)",
        "self._sessions.decide(transaction, prepared.timestamp)",
    ),
    Plant(
        "a reader does not wait for what is prepared",
        "routed-transactions",
        "docstore.replicaset.read.read_concern:ReadConcernWaiters._wait_decided",
        "if sessions.is_prepared_at(at):",
        "if False:",
    ),
    Plant(
        "a state of the past is without what was prepared by then",
        "routed-transactions",
        "docstore.collection.oplog.earlier_state:EarlierState.step",
        "if as_of is not None and as_of <= self._at:",
        "if False:",
    ),
    Plant(
        "each shard of a snapshot shows its newest state",
        "routed-transactions",
        "mongos.transactions.transaction:concern_at",
        "return ReadConcern(ReadLevel.SNAPSHOT, at_cluster_time=max(cluster_time, concern.after_cluster_time or 0) "
        "or None)",
        "return ReadConcern(ReadLevel.SNAPSHOT)",
    ),
    Plant(
        "a new primary forgets what is prepared",
        "routed-transactions-steps",
        f"{_REGISTRY}.take_over",
        "for lsid, prepared in store.sessions.prepared.items():",
        "for lsid, prepared in ():",
    ),
    Plant(
        "what a new primary has prepared again claims no collection",
        "prepared-changes",
        "docstore.collection.transaction.store:_Catalog.by_uuid",
        "if coll is not None:",
        "if False:",
    ),
    Plant(
        "what is prepared is given up when its time is over",
        "routed-transactions-steps",
        f"{_REGISTRY}.expire",
        "[candidate for candidate in self.sessions.open if candidate.activity.expires <= now]:\n",
        "[\n"
        "        candidate for candidate in self.sessions._by_session.values() if candidate.activity.expires <= now\n"
        "    ]:\n"
        "        if transaction.state is State.PREPARED and not transaction.busy:\n"
        "            self.sessions.decide(transaction, None)\n",
    ),
    Plant(
        "a commit that is asked for again is decided again",
        "routed-transactions",
        f"{_COORDINATORS}.coordinate",
        "if driver is None and participants and transactions_of(self._shard.node).sessions.is_open(session):",
        "if driver is None and participants:",
    ),
    Plant(
        "a coordinator leaves no document before it asks for votes",
        "routed-transactions-steps",
        f"{_DRIVER}.run",
        "if not resumed:",
        "if False:",
    ),
    Plant(
        "a coordinator's next primary forgets the commit",
        "routed-transactions-steps",
        f"{_COORDINATORS}._take_up",
        "for raw in [] if collection is None else collection.documents(node.engine):",
        "for raw in ():",
    ),
    Plant(
        "a participant that does not answer counts as told",
        "commits-away",
        f"{_DRIVER}._tell",
        'if error.code in _FORGOTTEN and "writeConcernError" not in error.extra:',
        "if True:",
    ),
    Plant(
        "a reader answers a commit that is asked for again",
        "repeated-commits",
        "mongos.transactions.ending:commit",
        "if not transaction.commit_requested:",
        "if True:",
    ),
    Plant(
        "a chunk that has come since the snapshot is read",
        "routed-transactions-moves",
        "docstore.sharding.routing:Routing.arrived",
        "return self.collection.gained.get(shard, 0)",
        "return 0",
    ),
    Plant(
        "a chunk leaves under an open transaction",
        "routed-transactions-moves",
        "mongod.migration.statements:RunningStatements.running",
        "transaction = self._claims.holder_of_any(scope.concerns)",
        "transaction = None",
    ),
    Plant(
        "a transaction gives a document a key of another shard",
        "key-changes",
        "docstore.sharding.post_images:PostImages.check_change",
        "if not self._owns(after):",
        "if False:",
    ),
    Plant(
        "a transaction may not change a shard key",
        "key-changes",
        "docstore.node.write.statement_loop:WriteTarget.in_session",
        "self.session_write is not None or (self.session is not None and self.session.transaction is not None)",
        "self.session_write is not None",
    ),
    Plant(
        "a transaction waits for a change as long as that takes",
        "waiting",
        "mongod.migration.transaction_filter:_wait_briefly",
        "timeout=seconds",
        "timeout=None",
    ),
    Plant(
        "a transaction waits for who waits for it",
        "waiting",
        "mongod.migration.transaction_filter:TransactionShardFilter._uses",
        "return namespace in self._entered or namespace in self._claimed",
        "return False",
    ),
    Plant(
        "other sessions end an open transaction",
        "waiting",
        "mongos.transactions.registry:RouterTransactions._begin",
        "self._ended.pop(session.lsid, None)",
        "[self._abort(oldest) for oldest in list(self._unended.values())[:-MAX_ENDED_TRANSACTIONS]]",
    ),
)
