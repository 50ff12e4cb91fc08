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
        "elections",
        f"{_VOTES}:refusal",
        "if not request.dry_run and state.vote.term == request.term and state.vote.candidate != request.candidate:",
        "if False:",
    ),
    Plant(
        "granted vote not persisted",
        "votes",
        f"{_VOTES}:vote",
        "            out.append(Persist(vote=cast))\n",
        "",
    ),
    Plant(
        "own vote not persisted",
        "votes",
        f"{_ELECTIONS}:_run",
        "    out.append(Persist(vote=state.vote))\n",
        "",
    ),
    Plant(
        "commit counts applied",
        "elections",
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
        "effects do not wait for what must be durable",
        "votes",
        "docstore.replicaset.driver:Driver._persist",
        "self._queue.hold()",
        "pass",
    ),
    Plant(
        "a flush covers what came while it ran",
        "elections",
        "docstore.replicaset.flusher:GroupFlusher._run",
        "self._durable = max(self._durable, position)",
        "self._durable = max(self._durable, self._position())",
    ),
    Plant(
        "majority acknowledged by one",
        "elections",
        f"{_PROGRESS}:satisfied",
        "return commit_point >= optime",
        "return True",
    ),
    Plant(
        "linearizable read does not ask the majority",
        "elections",
        "docstore.replicaset.read.read_concern:ReadConcernWaiters._open_linearizable",
        "await self._wait_committed(",
        "(lambda *_: None)(",
    ),
    Plant(
        "an isolated primary stays",
        "elections",
        "docstore.replication.terms:adopt_term",
        'stop_being_primary(state, now, out, f"a higher term was heard of: {term}")',
        "pass",
    ),
    Plant(
        "timestamps follow the wall clock back",
        "elections",
        "docstore.collection.oplog.oplog:Oplog.next_timestamp",
        "if now > self._time >> 32:",
        "if now != self._time >> 32:",
    ),
)
