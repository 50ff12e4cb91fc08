"""What one member says, the other hears: messages through BSON and back."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.errors import CommandError
from docstore.optime import NULL_OPTIME
from docstore.replicaset.codec import (
    decode_heartbeat,
    decode_positions,
    decode_reply,
    decode_vote_request,
    encode_reply,
    encode_request,
)
from docstore.replication.config import ConfigVersion
from docstore.replication.messages import (
    NO_CONFIG,
    HeartbeatReply,
    HeartbeatRequest,
    Position,
    PositionReply,
    PositionUpdate,
    StepUpRequest,
    VoteReply,
    VoteRequest,
)
from docstore.replication.states import MemberState
from tests.unit.replication.members import config_of, op, with_member

HEARTBEAT = HeartbeatRequest(
    set_name="set", sender="a:1", sender_id=3, config=ConfigVersion(2, 7), term=5, commit_point=op(5, 1 << 40)
)
VOTE = VoteRequest(set_name="set", dry_run=True, term=4, candidate=1, config=NO_CONFIG, last_op=NULL_OPTIME)
POSITIONS = PositionUpdate(
    term=3, config=ConfigVersion(-1, 2), positions=(Position(member=0, host="a:1", applied=op(3, 9), durable=op(2, 8)),)
)


def sent(document: dict[str, Any]) -> dict[str, Any]:
    return bson.decode(bson.encode(document))


def test_requests_arrive_as_they_were_sent() -> None:
    assert decode_heartbeat(sent(encode_request(HEARTBEAT)), 1) == HEARTBEAT
    assert decode_vote_request(sent(encode_request(VOTE)), 1) == VOTE
    assert decode_positions(sent(encode_request(POSITIONS)), 1) == POSITIONS


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (
            HEARTBEAT,
            HeartbeatReply(
                set_name="set",
                state=MemberState.PRIMARY,
                term=5,
                config=ConfigVersion(5, 1),
                applied=op(5, 3),
                durable=op(4, 2),
                commit_point=NULL_OPTIME,
                primary_id=2,
                sync_source="b:1",
                electable=True,
                election_time=(77 << 32) | 1,
                config_document=with_member(config_of("a", "b"), 1, newly_added=True),
            ),
        ),
        (VOTE, VoteReply(term=4, granted=False, reason="no")),
        (POSITIONS, PositionReply(term=3, commit_point=op(3, 1), primary_id=-1, config=ConfigVersion(3, 3))),
    ],
)
def test_replies_arrive_as_they_were_sent(request_: Any, reply: Any) -> None:
    assert decode_reply(request_, sent(encode_reply(reply))) == reply


def test_a_step_up_has_no_reply_to_speak_of() -> None:
    assert encode_request(StepUpRequest())["skipDryRun"] is True
    assert decode_reply(StepUpRequest(), {}) is None


@pytest.mark.parametrize(
    "body",
    [
        {"replSetHeartbeat": 1},
        {"replSetHeartbeat": "set", "from": "a:1"},
        {"replSetHeartbeat": "set", "from": "a:1", "configVersion": 1, "term": "x"},
        {"replSetHeartbeat": "set", "from": "a:1", "configVersion": 1, "term": 1, "lastOpCommitted": 5},
        {"replSetHeartbeat": "set", "from": "a:1", "configVersion": float("nan"), "term": 1},
    ],
)
def test_a_malformed_heartbeat_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(CommandError):
        decode_heartbeat(body, 1)


@pytest.mark.parametrize("optimes", [None, [], [1], [{"memberId": 0, "appliedOpTime": {"ts": 1, "t": 1}}]])
def test_malformed_positions_are_refused(optimes: Any) -> None:
    with pytest.raises(CommandError):
        decode_positions({"optimes": optimes, "term": 1, "configVersion": 1}, 1)
