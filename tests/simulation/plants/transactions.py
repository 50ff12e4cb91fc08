"""Planted bugs of transactions over many documents: snapshots, claims, commits, retries, what members apply."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_STORE = "docstore.collection.transaction.store:TransactionStore"
_REGISTRY = "docstore.node.transactions.registry:TransactionRegistry"
_ENDINGS = "docstore.node.transactions.endings:TransactionEndings"
_CLAIMS = "docstore.collection.transaction.claims:Claims"
_JOURNAL = "docstore.collection.oplog.journal:Journal"

PLANTS = (
    Plant(
        "a transaction's snapshot shows what is committed later",
        "transactions",
        f"{_REGISTRY}._snapshot",
        "return node.engine.snapshot(), None",
        "return _Leased(node.engine, lambda: None), None",
    ),
    Plant(
        "index entries of a transaction are there before its commit",
        "transactions",
        f"{_STORE}.took",
        "self.state.write(batch)",
        "early = Batch(); early.changes[_INDEXES].update(batch.changes[_INDEXES]); self.below.engine.write(early); "
        "self.state.write(batch)",
    ),
    Plant(
        "a key that was written since the snapshot is written again",
        "transactions",
        f"{_STORE}.claim",
        "if self.below.sequence != self._begun and",
        "if False and",
    ),
    Plant(
        "a key's claim is let go with the statement",
        "transactions",
        f"{_STORE}._take",
        "self.claims.keys[key] = self",
        "return",
    ),
    Plant(
        "unique keys are not claimed",
        "transactions-claims",
        f"{_STORE}.claim_entries",
        "elif kind == _UNIQUE:",
        "elif False:",
    ),
    Plant(
        "whoever writes outside does not look at claims",
        "transactions-claims",
        f"{_JOURNAL}.note_document",
        "if self._claimed:",
        "if False:",
    ),
    Plant(
        "a retryable write that has waited is not looked for again",
        "transactions-claims",
        "docstore.node.write.update:UpdateWork._advance",
        "if self._retried():",
        "if self._modification is None and self._retried():",
    ),
    Plant(
        "a commit does not wait for the majority",
        "transactions-reigns",
        f"{_ENDINGS}._acknowledged",
        "failed = await wait_for_write(context, optime, concern)",
        "failed = None",
    ),
    Plant(
        "secondaries do not note that a transaction is committed",
        "transactions-reigns",
        "docstore.collection.oplog.replay_journal:ReplayJournal._move_session",
        "optime.timestamp, wall_ms) + ended",
        "optime.timestamp, wall_ms)",
    ),
    Plant(
        "a primary does not know what its predecessor has committed",
        "transactions-reigns",
        "docstore.collection.oplog.sessions:SessionState.committed",
        "self.row is not None and self.row[_ROW.size :] == COMMITTED",
        "False",
    ),
    Plant(
        "a transaction outlives the step-down of its primary",
        "transactions-returns",
        "docstore.node.process.start:NodeProcess._stepped_down",
        "transactions_of(self.node).sessions.end_all(error)",
        "pass",
    ),
    Plant(
        "a member of another term says that there is no such transaction",
        "transactions-reigns",
        f"{_ENDINGS}._vouch",
        "if error.code != Code.NoSuchTransaction and",
        "if True or",
    ),
    Plant(
        "a transaction that has only read leaves nothing in the log",
        "transactions-between",
        f"{_STORE}.commit",
        "            with self.below.unit() as noop:\n"
        "                noop.noop(_READ_ONLY)\n"
        "                return noop.commit()\n",
        "            return None\n",
    ),
    Plant(
        "the entries of a transaction take effect one by one",
        "transactions-pieces",
        "docstore.collection.oplog.apply:_Applier._transaction",
        "    if get_field(self._o, PARTIAL) is not None or get_field(self._o, PREPARE) is not None:\n"
        "        return\n"
        "    oplog = self._store.oplog\n",
        "    from docstore.collection.oplog.operations import operations_of\n"
        "    self.run_operations(operations_of(self._o))\n"
        "    return\n"
        "    oplog = self._store.oplog\n",
    ),
    Plant(
        "the undo record of a transaction has its last key only",
        "transactions-pieces",
        f"{_JOURNAL}.log_transaction",
        "(undo_sums(counted), *undo, row)",
        "(undo_sums(counted), *undo[-1:], row)",
    ),
    Plant(
        "a rollback leaves the session's row of a transaction",
        "transactions-reigns",
        f"{_JOURNAL}.log_transaction",
        "(undo_sums(counted), *undo, row)",
        "(undo_sums(counted), *undo)",
    ),
    Plant(
        "a copy begins in the midst of a transaction",
        "transactions-copies",
        "docstore.replicaset.sync.session_rows:_log_begin",
        "while entry is not None and (before := part_before(entry)) is not None:",
        "while False:",
    ),
    Plant(
        "collections are changed under a transaction",
        "transactions-ddl",
        f"{_CLAIMS}.holder",
        "users = self._users.get(ns)",
        "return None",
    ),
    Plant(
        "transactions stay open for ever",
        "transactions-ddl",
        f"{_REGISTRY}.expire",
        "now = self._node.clock()",
        "return",
    ),
)
