"""What an operator reads: each change once, with its reason, in the words that are looked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docstore.replication.config import ConfigVersion
from docstore.replication.effects import Effect, Log
from docstore.replication.messages import Answered, StepUpRequest, VoteReply, VoteRequest
from docstore.replication.states import MemberState
from tests.unit.replication.members import (
    NOW,
    config_of,
    every,
    follower,
    hear,
    leader,
    lose,
    op,
    vote_request,
    with_member,
)

THREE = config_of("a", "b", "c")


def said(effects: Iterable[Effect]) -> list[tuple[str, dict[str, Any]]]:
    return [(line.message, dict(line.attributes)) for line in every(effects, Log)]


def messages(effects: Iterable[Effect]) -> list[str]:
    return [message for message, _ in said(effects)]


def test_a_member_that_goes_down_and_comes_back_is_said_once_each() -> None:
    core = follower(THREE, last=op(1, 10))
    up = ("Member is in new state", {"hostAndPort": "b:1", "newState": "SECONDARY"})
    assert up in said(hear(core, "b:1"))
    assert up not in said(hear(core, "b:1"))
    down = ("Member is now in state DOWN", {"hostAndPort": "b:1", "heartbeatMessage": "failed"})
    assert down in said(lose(core, "b:1"))
    assert down not in said(lose(core, "b:1"))
    assert up in said(hear(core, "b:1"))


def test_an_election_says_why_it_began_and_what_each_voter_said() -> None:
    core = follower(THREE, last=op(1, 10))
    core.state.candidacy.election_at = NOW
    assert messages(core.tick(NOW))[:2] == [
        "Starting an election, since we've seen no PRIMARY in election timeout period",
        "Conducting a dry run election to see if we could be elected",
    ]
    request = vote_request(core, dry_run=True)
    refused = VoteReply(term=1, granted=False, reason="candidate's data is staler than mine")
    no = {"term": 1, "dryRun": True, "from": "b:1", "vote": "no", "reason": refused.reason}
    assert said(core.receive(Answered(peer="b:1", request=request, reply=refused), NOW)) == [
        ("VoteRequester processResponse", no)
    ]
    effects = core.receive(Answered(peer="c:1", request=request, reply=None, error="no route"), NOW)
    silent = {"term": 1, "dryRun": True, "from": "c:1", "failReason": "failed to receive response", "error": "no route"}
    assert said(effects)[0] == ("VoteRequester processResponse", silent)
    assert messages(effects)[1] == "Not running for primary, we received insufficient votes"


def test_an_election_by_request_says_so_and_that_it_succeeded() -> None:
    core = follower(THREE, last=op(1, 10))
    assert messages(core.receive(StepUpRequest(token=1), NOW))[:2] == [
        "Starting an election due to step up request",
        "Skipping dry run, running for election",
    ]
    granted = VoteReply(term=2, granted=True)
    won = core.receive(Answered(peer="b:1", request=vote_request(core, dry_run=False), reply=granted), NOW)
    assert "Election succeeded, assuming primary role" in messages(won)


def test_a_voter_says_whom_it_refused_and_by_which_rule() -> None:
    core = follower(THREE, last=op(1, 10))
    request = VoteRequest(
        set_name="set", dry_run=False, term=2, candidate=1, config=ConfigVersion(0, 1), last_op=op(1, 9), token=7
    )
    (message, about) = next(line for line in said(core.receive(request, NOW)) if line[0].startswith("Responding"))
    assert message == "Responding to vote request"
    assert about["voteGranted"] is False
    assert about["reason"] == "candidate's data is staler than mine"


def test_a_takeover_is_announced_and_called_off() -> None:
    core = follower(with_member(THREE, 0, priority=2.0), last=op(1, 10))
    assert "Scheduling priority takeover" in messages(hear(core, "b:1", state=MemberState.PRIMARY, term=1))
    assert "Scheduling priority takeover" not in messages(hear(core, "b:1", state=MemberState.PRIMARY, term=1))
    assert "Canceling priority takeover callback" in messages(hear(core, "b:1", state=MemberState.SECONDARY, term=1))


def test_a_configuration_is_said_when_it_is_installed() -> None:
    core = leader(THREE, op(0, 1))
    newer = with_member(config_of("a", "b", "c", version=7, term=1), 1, tags={"dc": "east"})
    effects = hear(core, "b:1", config=newer.config_version, config_document=newer)
    message, about = said(effects)[0]
    assert message == "New replica set config in use"
    assert about["config"]["version"] == 7
    assert "New replica set config in use" not in messages(hear(core, "b:1"))
