"""replSetGetStatus: the set as known to this member.

Dates of entries are those of their timestamps, in whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from docstore.bson import get_field, to_python
from docstore.errors import Code, CommandError
from docstore.optime import OpTime, unpack_timestamp
from docstore.replication.config import MemberConfig
from docstore.replication.peers import Peer
from docstore.replication.state import State
from docstore.replication.states import MemberState, Role

if TYPE_CHECKING:
    from docstore.replicaset.replicaset import ReplicaSet

_EMPTY_CONFIG = {
    "startupStatus": 3,
    "info": "run rs.initiate(...) if not yet done for the set",
}


def status(replica_set: ReplicaSet, *, now: float, wall: float, started: float, initial_sync: bool) -> dict[str, Any]:
    """Return the reply's fields. `now` and `started` are monotonic seconds, `wall` seconds since 1970.

    `initial_sync`: include the progress of an initial sync.

    Errors: NotYetInitialized with the fields of 2012 besides today's; InvalidReplicaSetConfig for a removed member.
    """
    membership = replica_set.membership
    state = membership.state
    config = state.config
    if config is None:
        raise CommandError(
            Code.NotYetInitialized,
            "no replset config has been received: can't get local.system.replset config from self or any seed "
            "(EMPTYCONFIG)",
            extra=_EMPTY_CONFIG,
        )
    if state.me is None:
        raise CommandError(
            Code.InvalidReplicaSetConfig, "Our replica set config is invalid or we are not a member of it"
        )
    clock = _Clock(now, wall)
    body: dict[str, Any] = {
        "set": config.set_name,
        "date": clock.date(now),
        "myState": int(state.member_state),
        "term": Int64(state.term),
        "syncSourceHost": state.sync_source.host or "",
        "syncSourceId": _id_of(state, state.sync_source.host),
        "heartbeatIntervalMillis": Int64(config.settings.heartbeat_interval_millis),
        "majorityVoteCount": config.majority_votes,
        "writeMajorityCount": config.write_majority,
        "votingMembersCount": len(config.voters),
        "writableVotingMembersCount": config.writable_voters,
    }
    body["optimes"] = _optimes(replica_set, state)
    if initial_sync and membership.syncing.needs_initial_sync:
        body["initialSyncStatus"] = membership.syncing.progress.document()
    if state.role is Role.LEADER:
        body.update(_election(state, clock))
    body["members"] = [
        _self(replica_set, state, member, clock, started)
        if member.id == state.my_id
        else _other(replica_set, state, member, state.peers[member.host], clock)
        for member in config.members
    ]
    return body


class _Clock:
    """Conversion of the core's clock to dates."""

    def __init__(self, now: float, wall: float) -> None:
        self.now = now
        self._offset = wall - now

    def date(self, moment: float) -> datetime:
        """Return the date of a moment; the epoch for one that never occurred."""
        return datetime.fromtimestamp(max(moment + self._offset, 0.0) if moment > 0 else 0.0, UTC)


def _optimes(replica_set: ReplicaSet, state: State) -> dict[str, Any]:
    committed = min(state.commit_point, state.applied)
    fields: dict[str, Any] = {"lastCommittedOpTime": committed.to_document()}
    wall = _wall_of(replica_set, committed)
    if wall is not None:
        fields["lastCommittedWallTime"] = wall
    fields["readConcernMajorityOpTime"] = committed.to_document()
    fields["appliedOpTime"] = state.applied.to_document()
    fields["durableOpTime"] = state.durable.to_document()
    return fields | _wall_times(replica_set, state.applied, state.durable)


def _wall_times(replica_set: ReplicaSet, applied: OpTime, durable: OpTime) -> dict[str, Any]:
    """Return the wall clock times of a member's newest entries, if they are in this member's oplog."""
    optimes = {"lastAppliedWallTime": applied, "lastDurableWallTime": durable}
    walls = {name: _wall_of(replica_set, optime) for name, optime in optimes.items()}
    return {name: wall for name, wall in walls.items() if wall is not None}


def _wall_of(replica_set: ReplicaSet, optime: OpTime) -> Any | None:
    """Return the writer's wall clock time of an entry, or None."""
    oplog = replica_set.membership.store.oplog
    entry = None if oplog is None else oplog.entry(optime.timestamp)
    wall = None if entry is None else get_field(entry, "wall")
    return None if wall is None else to_python(wall)


def _election(state: State, clock: _Clock) -> dict[str, Any]:
    record, config = state.leadership.last_election, state.config
    if record is None or config is None:
        return {}
    metrics: dict[str, Any] = {
        "lastElectionReason": record.reason,
        "lastElectionDate": clock.date(record.at),
        "electionTerm": Int64(record.term),
        "lastCommittedOpTimeAtElection": record.commit_point.to_document(),
        "lastSeenOpTimeAtElection": record.last_seen.to_document(),
        "numVotesNeeded": record.votes_needed,
        "priorityAtElection": record.priority,
        "electionTimeoutMillis": Int64(config.settings.election_timeout_millis),
    }
    if record.caught_up_at is not None:
        metrics["newTermStartDate"] = clock.date(record.caught_up_at)
    if record.majority_at is not None:
        metrics["wMajorityWriteAvailabilityDate"] = clock.date(record.majority_at)
    return {"electionCandidateMetrics": metrics}


def _self(replica_set: ReplicaSet, state: State, member: MemberConfig, clock: _Clock, started: float) -> dict[str, Any]:
    fields = _head(member, state.member_state, clock.now - started)
    if member.data_bearing:
        fields.update(optime=state.applied.to_document(), optimeDate=_date(state.applied))
        fields.update(_wall_times(replica_set, state.applied, state.durable))
    fields["syncSourceHost"] = state.sync_source.host or ""
    fields["syncSourceId"] = _id_of(state, state.sync_source.host)
    fields["infoMessage"] = "" if state.sync_source.host else state.sync_source.reason
    if state.role is Role.LEADER and state.leadership.election_time:
        fields.update(_election_time(state.leadership.election_time))
    fields.update(_config_fields(state.config_version), self=True, lastHeartbeatMessage="")
    return fields


def _other(replica_set: ReplicaSet, state: State, member: MemberConfig, peer: Peer, clock: _Clock) -> dict[str, Any]:
    member_state = peer.state if peer.up else MemberState.DOWN
    fields = _head(member, member_state, clock.now - peer.up_since if peer.up else 0, healthy=peer.up)
    if member.data_bearing:
        fields.update(optime=peer.applied.to_document(), optimeDurable=peer.durable.to_document())
        fields.update(optimeDate=_date(peer.applied), optimeDurableDate=_date(peer.durable))
        fields.update(_wall_times(replica_set, peer.applied, peer.durable))
    fields["lastHeartbeat"] = clock.date(peer.heard_at)
    fields["lastHeartbeatRecv"] = clock.date(peer.request_at)
    if peer.up:
        fields["pingMs"] = Int64(int(peer.ping * 1000))
    fields["lastHeartbeatMessage"] = peer.message
    fields["syncSourceHost"] = peer.sync_source
    fields["syncSourceId"] = _id_of(state, peer.sync_source)
    fields["infoMessage"] = ""
    if peer.election_time and peer.state is MemberState.PRIMARY:
        fields.update(_election_time(peer.election_time))
    fields.update(_config_fields(peer.config))
    return fields


def _head(member: MemberConfig, state: MemberState, uptime: float, *, healthy: bool = True) -> dict[str, Any]:
    return {
        "_id": member.id,
        "name": member.host,
        "health": 1.0 if healthy else 0.0,
        "state": int(state),
        "stateStr": state.label,
        "uptime": int(uptime),
    }


def _date(optime: OpTime) -> datetime:
    return datetime.fromtimestamp(optime.seconds, UTC)


def _election_time(packed: int) -> dict[str, Any]:
    return {"electionTime": unpack_timestamp(packed), "electionDate": datetime.fromtimestamp(packed >> 32, UTC)}


def _config_fields(version: tuple[int, int]) -> Mapping[str, Any]:
    return {"configVersion": version[1], "configTerm": version[0]}


def _id_of(state: State, host: str | None) -> int:
    member = None if not host else state.member_of(host)
    return -1 if member is None else member.id
