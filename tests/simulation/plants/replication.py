"""Planted bugs of the replica set: votes, terms, the commit point, rollback, what reads and writes wait for."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

_ELECTIONS = "docstore.replication.elections"
_PROGRESS = "docstore.replication.progress"
_VOTES = "docstore.replication.votes"

PLANTS = (
    Plant(
        "commit without the term check",
        "elections",
        f"{_PROGRESS}:commit_point",
        "candidate.term == term and ",
        "",
    ),
    Plant(
        "two votes a term",
        "same-term",
        f"{_VOTES}:refusal",
        "if not request.dry_run and state.vote.term == request.term and state.vote.candidate != request.candidate:",
        "if False:",
    ),
    Plant(
        "granted vote not persisted",
        "same-term",
        f"{_VOTES}:vote",
        "            out.append(Persist(vote=cast))\n",
        "",
    ),
    Plant(
        "own vote not persisted",
        "same-term",
        f"{_ELECTIONS}:_run",
        "    out.append(Persist(vote=state.vote))\n",
        "",
    ),
    Plant(
        "commit counts applied",
        "unsynced",
        f"{_PROGRESS}:commit_point",
        "position.durable if config.journal_default else position.applied",
        "position.applied",
    ),
    Plant(
        "diverged tail kept",
        "rollbacks",
        "docstore.replication.matching:judge",
        "return Verdict.ROLL_BACK",
        "return Verdict.FETCH",
    ),
    Plant(
        "catch-up skipped",
        "catch-up",
        "docstore.replication.leadership:_catch_up",
        "if progress.newest(ahead, state.applied) <= state.applied:",
        "if True:",
    ),
    Plant(
        "vote without the log check",
        "elections",
        f"{_VOTES}:refusal",
        "if request.last_op < state.applied:",
        "if False:",
    ),
    Plant(
        "commit point learned in any term",
        "rollbacks",
        "docstore.replication.following:learn_commit_point",
        "if arbiter or state.applied.term == commit_point.term:",
        "if True:",
    ),
    Plant(
        "what must be durable is not brought to disk",
        "same-term",
        "docstore.replicaset.driver:Driver._persisted",
        "await self._flush()",
        "await asyncio.sleep(0)",
    ),
    Plant(
        "a flush covers what came while it ran",
        "unsynced",
        "docstore.replicaset.flusher:GroupFlusher._run",
        "self._durable = max(self._durable, position)",
        "self._durable = max(self._durable, self._position())",
    ),
    Plant(
        "majority acknowledged by one",
        "deposed",
        f"{_PROGRESS}:satisfied",
        "return commit_point >= optime",
        "return True",
    ),
    Plant(
        "linearizable read does not ask the majority",
        "deposed",
        "docstore.replicaset.read.read_concern:ReadConcernWaiters._open_linearizable",
        "await self._wait_committed(self._store.last_optime, term, deadline)",
        "pass",
    ),
    Plant(
        "timestamps follow the wall clock back",
        "elections",
        "docstore.collection.oplog.oplog:Oplog.next_timestamp",
        "if now > self._time >> 32:",
        "if now != self._time >> 32:",
    ),
    Plant(
        "an election is won with one vote too few",
        "elections",
        f"{_PROGRESS}:on_majority",
        ">= config.majority_votes",
        ">= config.majority_votes - 1",
    ),
    Plant(
        "commit by one too few",
        "elections",
        f"{_PROGRESS}:commit_point",
        "needed = config.write_majority",
        "needed = max(config.write_majority - 1, 1)",
    ),
    Plant(
        "a candidate keeps its term",
        "elections",
        f"{_ELECTIONS}:_run",
        "    state.term += 1\n",
        "",
    ),
    Plant(
        "the vote's term is forgotten at a restart",
        "same-term",
        "docstore.replication.core:Core.__init__",
        "max(vote.term, last_op.term, 0)",
        "max(last_op.term, 0)",
    ),
    Plant(
        "secondaries take writes",
        "elections",
        "docstore.replicaset.replicaset:ReplicaSet.check_write",
        "if self.membership.core.state.primary_state is not PrimaryState.WRITABLE:",
        "if False:",
    ),
    Plant(
        "majority reads show what is not committed",
        "deposed",
        "docstore.replicaset.read.majority_snapshots:MajoritySnapshots.open",
        "held = self._kept[0]",
        "held = self._kept[-1]",
    ),
    Plant(
        "a causal read does not wait for its time",
        "elections",
        "docstore.replicaset.read.read_concern:ReadConcernWaiters._open_majority",
        "self._committed().timestamp >= max(after, 1)",
        "self._committed().timestamp >= 1",
    ),
    Plant(
        "a new primary shows what its predecessor had told it",
        "moves-moments",
        "docstore.replicaset.read.read_concern:ReadConcernWaiters._open_majority",
        " and not self._new_in_its_term()",
        "",
    ),
    Plant(
        "voters change several at a time",
        "voters",
        "docstore.replication.reconfig:_check_one_voter",
        "if len(before ^ after) > 1:",
        "if False:",
    ),
    Plant(
        "members of other sets are welcome",
        "strangers",
        "docstore.replication.config:is_foreign",
        "return ours is not None and theirs is not None and ours != theirs",
        "return False",
    ),
    Plant(
        "statements of a session are not remembered",
        "elections",
        "docstore.collection.oplog.sessions:SessionTable.statement",
        "found = state.statements.get(stmt_id)",
        "found = None",
    ),
    Plant(
        "a member in maintenance of its copy says it is ready",
        "initial-sync",
        "docstore.replicaset.membership:Membership.after",
        "MemberState.STARTUP2 if self.syncing.needs_initial_sync and not arbiter else MemberState.SECONDARY",
        "MemberState.SECONDARY",
    ),
)
