"""The replica set fields of hello, computed from the core's state and the ends of the oplog."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bson.objectid import ObjectId

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import MemberConfig, ReplicaSetConfig
from docstore.replication.state import State
from docstore.replication.states import MemberState, Role

UNINITIATED: dict[str, Any] = {
    "isWritablePrimary": False,
    "secondary": False,
    "info": "Does not have a valid replica set config",
    "isreplicaset": True,
}


def election_id(term: int) -> ObjectId:
    """Return an id that grows with the term: drivers use it to tell an old primary from a new one."""
    return ObjectId((0x7FFFFFFF).to_bytes(4, "big") + term.to_bytes(8, "big"))


def hello_fields(state: State, last: OpTime, committed: OpTime) -> dict[str, Any]:
    """Return the set's fields in the reference's order.

    A primary that is not writable yet reports itself as secondary.
    """
    config, me = state.config, state.me
    if config is None or me is None:
        return dict(UNINITIATED)
    fields = _hosts(config)
    fields["setName"] = config.set_name
    fields["setVersion"] = config.version
    fields["isWritablePrimary"] = state.writable
    in_waiting = state.role is Role.LEADER and not state.writable
    fields["secondary"] = in_waiting or state.member_state is MemberState.SECONDARY
    primary = primary_host(state)
    if primary:
        fields["primary"] = primary
    fields.update(_own_kind(me))
    fields["me"] = me.host
    if state.writable:
        fields["electionId"] = election_id(state.term)
    if last != NULL_OPTIME:
        committed = min(committed, last)
        fields["lastWrite"] = {
            "opTime": last.to_document(),
            "lastWriteDate": _date(last),
            "majorityOpTime": committed.to_document(),
            "majorityWriteDate": _date(committed),
        }
    return fields


def primary_host(state: State) -> str:
    """Return the host of the writable primary, as far as known; empty if there is none."""
    if state.writable and state.me is not None:
        return state.me.host
    member = None if state.config is None else state.config.member(state.primary_id)
    return "" if member is None else member.host


def topology_seen(state: State) -> tuple[object, ...]:
    """Return the values whose change increases the topology version, because hello shows them."""
    term = state.term if state.writable else 0
    return (state.member_state, state.config_version, primary_host(state), state.writable, term)


def _hosts(config: ReplicaSetConfig) -> dict[str, Any]:
    visible = [member for member in config.members if not member.hidden]
    fields: dict[str, Any] = {"hosts": [m.host for m in visible if m.priority > 0 and not m.arbiter_only]}
    passives = [m.host for m in visible if m.priority == 0 and not m.arbiter_only]
    arbiters = [m.host for m in visible if m.arbiter_only]
    if passives:
        fields["passives"] = passives
    if arbiters:
        fields["arbiters"] = arbiters
    return fields


def _own_kind(me: MemberConfig) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if me.arbiter_only:
        fields["arbiterOnly"] = True
    elif me.priority == 0:
        fields["passive"] = True
    if me.hidden:
        fields["hidden"] = True
    if me.delay_seconds:
        fields["secondaryDelaySecs"] = me.delay_seconds
    if me.tags:
        fields["tags"] = dict(me.tags)
    return fields


def _date(optime: OpTime) -> datetime:
    return datetime.fromtimestamp(max(optime.seconds, 0), UTC)
