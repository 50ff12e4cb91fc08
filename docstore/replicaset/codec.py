"""Encoding of the core's messages as commands between members.

The commands are `replSetHeartbeat`, `replSetRequestVotes`, `replSetUpdatePosition` and `replSetStepUp`, with MongoDB's
names and shapes if it has the field.

Differences: all carry the sender's `replicaSetId`, a heartbeat also its commit point (`lastOpCommitted`), a position
the member's host, a vote request `ifNoPrimary`. The reply to a position update contains what MongoDB sends as metadata
of the oplog cursor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.optime import NULL_OPTIME, OpTime, pack_timestamp, unpack_timestamp
from docstore.replication.config import ConfigVersion, ReplicaSetConfig, parse_config
from docstore.replication.config_rules import validate
from docstore.replication.messages import (
    NO_MEMBER,
    HeartbeatReply,
    HeartbeatRequest,
    Position,
    PositionReply,
    PositionUpdate,
    Request,
    StepUpRequest,
    VoteReply,
    VoteRequest,
)
from docstore.replication.states import MemberState

Document = dict[str, Any]


def encode_request(request: Request) -> Document:
    """Return the command of a request."""
    match request:
        case HeartbeatRequest():
            return {
                "replSetHeartbeat": request.set_name,
                "from": request.sender,
                "fromId": request.sender_id,
                "configVersion": Int64(request.config.version),
                "configTerm": Int64(request.config.term),
                "term": Int64(request.term),
                "lastOpCommitted": request.commit_point.to_document(),
                **_of_set(request.replica_set_id),
            }
        case VoteRequest():
            return {
                "replSetRequestVotes": 1,
                "setName": request.set_name,
                "dryRun": request.dry_run,
                "term": Int64(request.term),
                "candidateIndex": Int64(request.candidate),
                "configVersion": Int64(request.config.version),
                "configTerm": Int64(request.config.term),
                "lastAppliedOpTime": request.last_op.to_document(),
                "ifNoPrimary": request.if_no_primary,
                **_of_set(request.replica_set_id),
            }
        case PositionUpdate():
            return {
                "replSetUpdatePosition": 1,
                "optimes": [
                    {
                        "memberId": Int64(position.member),
                        "host": position.host,
                        "appliedOpTime": position.applied.to_document(),
                        "durableOpTime": position.durable.to_document(),
                    }
                    for position in request.positions
                ],
                "term": Int64(request.term),
                "configVersion": Int64(request.config.version),
                "configTerm": Int64(request.config.term),
                **_of_set(request.replica_set_id),
            }
        case StepUpRequest():
            return {"replSetStepUp": 1, "skipDryRun": True}


def decode_heartbeat(body: Mapping[str, Any], token: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        set_name=_text(body, "replSetHeartbeat"),
        sender=_text(body, "from"),
        sender_id=_number(body, "fromId", NO_MEMBER),
        config=_config_version(body),
        term=_number(body, "term"),
        commit_point=_optime(body, "lastOpCommitted"),
        replica_set_id=_set_id(body),
        token=token,
    )


def decode_vote_request(body: Mapping[str, Any], token: int) -> VoteRequest:
    return VoteRequest(
        set_name=_text(body, "setName"),
        dry_run=bool(body.get("dryRun", False)),
        term=_number(body, "term"),
        candidate=_number(body, "candidateIndex"),
        config=_config_version(body),
        last_op=_optime(body, "lastAppliedOpTime"),
        if_no_primary=body.get("ifNoPrimary") is True,
        replica_set_id=_set_id(body),
        token=token,
    )


def decode_positions(body: Mapping[str, Any], token: int) -> PositionUpdate:
    optimes = body.get("optimes")
    if not isinstance(optimes, list) or not optimes or not all(isinstance(entry, Mapping) for entry in optimes):
        raise CommandError(Code.FailedToParse, "replSetUpdatePosition needs 'optimes', an array of documents")
    return PositionUpdate(
        term=_number(body, "term"),
        config=_config_version(body),
        positions=tuple(
            Position(
                member=_number(entry, "memberId"),
                host=str(entry.get("host", "")),
                applied=_optime(entry, "appliedOpTime"),
                durable=_optime(entry, "durableOpTime"),
            )
            for entry in optimes
        ),
        replica_set_id=_set_id(body),
        token=token,
    )


def encode_reply(reply: HeartbeatReply | VoteReply | PositionReply) -> Document:
    """Return the fields of a command's reply."""
    match reply:
        case HeartbeatReply():
            document: Document = {
                "set": reply.set_name,
                "state": int(reply.state),
                "v": Int64(reply.config.version),
                "configTerm": Int64(reply.config.term),
                "term": Int64(reply.term),
                "primaryId": Int64(reply.primary_id),
                "appliedOpTime": reply.applied.to_document(),
                "durableOpTime": reply.durable.to_document(),
                "lastOpCommitted": reply.commit_point.to_document(),
                "syncingTo": reply.sync_source,
                "electable": reply.electable,
                **_of_set(reply.replica_set_id),
            }
            if reply.election_time:
                document["electionTime"] = unpack_timestamp(reply.election_time)
            if reply.config_document is not None:
                document["config"] = reply.config_document.to_document(stored=True)
            return document
        case VoteReply():
            return {"term": Int64(reply.term), "voteGranted": reply.granted, "reason": reply.reason}
        case PositionReply():
            return {
                "$replData": {
                    "term": Int64(reply.term),
                    "lastOpCommitted": reply.commit_point.to_document(),
                    "configVersion": Int64(reply.config.version),
                    "configTerm": Int64(reply.config.term),
                    "primaryId": Int64(reply.primary_id),
                }
            }


def decode_reply(request: Request, body: Mapping[str, Any]) -> HeartbeatReply | VoteReply | PositionReply | None:
    """Decode the reply to `request`, as encoded by `encode_reply`. Errors: CommandError for an invalid reply."""
    match request:
        case HeartbeatRequest():
            config = body.get("config")
            return HeartbeatReply(
                set_name=_text(body, "set"),
                state=_state(body),
                term=_number(body, "term"),
                config=ConfigVersion(_number(body, "configTerm"), _number(body, "v")),
                applied=_optime(body, "appliedOpTime"),
                durable=_optime(body, "durableOpTime"),
                commit_point=_optime(body, "lastOpCommitted"),
                primary_id=_number(body, "primaryId", NO_MEMBER),
                sync_source=str(body.get("syncingTo", "")),
                electable=bool(body.get("electable", False)),
                election_time=_timestamp(body, "electionTime"),
                replica_set_id=_set_id(body),
                config_document=None if config is None else _config(config),
            )
        case VoteRequest():
            return VoteReply(
                term=_number(body, "term"), granted=body.get("voteGranted") is True, reason=str(body.get("reason", ""))
            )
        case PositionUpdate():
            data = body.get("$replData")
            if not isinstance(data, Mapping):
                raise CommandError(Code.FailedToParse, "the reply to replSetUpdatePosition has no $replData")
            return PositionReply(
                term=_number(data, "term"),
                commit_point=_optime(data, "lastOpCommitted"),
                primary_id=_number(data, "primaryId"),
                config=_config_version(data),
            )
        case StepUpRequest():
            return None


def _config(document: object) -> ReplicaSetConfig:
    """Return a complete configuration that can be installed as it is."""
    if not isinstance(document, Mapping):
        raise CommandError(Code.TypeMismatch, "field 'config' must be a document")
    config = parse_config(document)
    validate(config)
    return config


def _of_set(replica_set_id: ObjectId | None) -> Document:
    return {} if replica_set_id is None else {"replicaSetId": replica_set_id}


def _set_id(body: Mapping[str, Any]) -> ObjectId | None:
    value = body.get("replicaSetId")
    if value is not None and not isinstance(value, ObjectId):
        raise CommandError(Code.TypeMismatch, "field 'replicaSetId' must be an ObjectId")
    return value


def _state(body: Mapping[str, Any]) -> MemberState:
    number = _number(body, "state")
    try:
        return MemberState(number)
    except ValueError:
        raise CommandError(Code.BadValue, f"{number} is no state of a member that is known here") from None


def _timestamp(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name, Timestamp(0, 0))
    if not isinstance(value, Timestamp):
        raise CommandError(Code.TypeMismatch, f"field '{name}' must be a timestamp")
    return pack_timestamp(value)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise CommandError(Code.TypeMismatch, f"field '{name}' must be a string")
    return value


def _number(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = body.get(name, default)
    if type(value) is Int64 or type(value) is int:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not float(value).is_integer():
        raise CommandError(Code.TypeMismatch, f"field '{name}' must be a whole number")
    return int(value)


def _optime(body: Mapping[str, Any], name: str) -> OpTime:
    value = body.get(name)
    if value is None:
        return NULL_OPTIME
    # The usual form of members' messages; a test for Mapping would cost more than the rest of this function.
    if (type(value) is not dict and not isinstance(value, Mapping)) or not isinstance(value.get("ts"), Timestamp):
        raise CommandError(Code.TypeMismatch, f"field '{name}' must be an optime")
    return OpTime(_number(value, "t"), pack_timestamp(value["ts"]))


def _config_version(body: Mapping[str, Any]) -> ConfigVersion:
    return ConfigVersion(_number(body, "configTerm", -1), _number(body, "configVersion"))
