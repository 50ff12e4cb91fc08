"""Check of a configuration with its members before it is installed.

* An initiation needs the consent of every proposed member: same set name, no configuration and no data.
* A change needs the consent of a majority of its voters, and waits only for that and for the new members' replies.
* Members of another set, or with a configuration that the new one would not replace, veto both.
* A forced change is not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.net.errors import NetworkError
from docstore.replicaset.codec import decode_reply, encode_request
from docstore.replicaset.driver import UNREADABLE
from docstore.replication.config import MemberConfig, ReplicaSetConfig, is_foreign
from docstore.replication.messages import NO_CONFIG, NO_MEMBER, HeartbeatReply, HeartbeatRequest
from docstore.replication.progress import on_majority

if TYPE_CHECKING:
    from docstore.replicaset.membership import Membership

ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """Reply of a member. `reason`: why it does not consent; empty if it does.

    `veto`: an error that rejects the whole check.
    """

    member: MemberConfig
    reason: str = ""
    veto: CommandError | None = None


async def check_initiation(membership: Membership, config: ReplicaSetConfig) -> None:
    """Check an initiation.

    Errors: NewReplicaSetConfigurationIncompatible, CannotInitializeNodeWithData, NodeNotFound.
    """
    own = membership.state.own_hosts
    asking = [_ask(membership, config, member) for member in config.members if member.host not in own]
    answers = await asyncio.gather(*asking)
    _raise_veto(answers)
    failed = _failures(answers)
    if failed:
        raise CommandError(
            Code.NodeNotFound,
            "replSetInitiate quorum check failed because not all proposed set members responded affirmatively: "
            + failed,
        )


async def check_change(membership: Membership, current: ReplicaSetConfig, config: ReplicaSetConfig) -> None:
    """Check `config` as the successor of `current`. Errors: NewReplicaSetConfigurationIncompatible, NodeNotFound."""
    own = membership.state.own_hosts
    here = [member for member in config.members if member.host in own]
    current_ids = {member.identity for member in current.members}
    tasks = {
        asyncio.ensure_future(_ask(membership, config, member)): member
        for member in config.members
        if member not in here
    }
    answers: list[_Answer] = []
    waiting = set(tasks)
    try:
        while waiting and not (
            on_majority(config, _agreeing(here, answers))
            and all(tasks[task].identity in current_ids for task in waiting)
        ):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answers += [task.result() for task in done]
            _raise_veto(answers)
    finally:
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
    agreeing = _agreeing(here, answers)
    if not on_majority(config, agreeing):
        voters = [member.host for member in config.voters if member.id in agreeing]
        raise CommandError(
            Code.NodeNotFound,
            f"Quorum check failed because not enough voting nodes responded; required {config.majority_votes} but only "
            f"the following {len(voters)} voting nodes responded: {', '.join(voters)}; the following nodes did not "
            f"respond affirmatively: {_failures(answers)}",
        )


def _agreeing(here: list[MemberConfig], answers: list[_Answer]) -> set[int]:
    return {member.id for member in here} | {answer.member.id for answer in answers if not answer.reason}


def _failures(answers: list[_Answer]) -> str:
    return ", ".join(f"{answer.member.host} failed with {answer.reason}" for answer in answers if answer.reason)


def _raise_veto(answers: list[_Answer]) -> None:
    for answer in answers:
        if answer.veto is not None:
            raise answer.veto


async def _ask(membership: Membership, config: ReplicaSetConfig, member: MemberConfig) -> _Answer:
    # Sent as by a process without configuration, which no member takes for a member.
    request = HeartbeatRequest(
        set_name=config.set_name,
        sender="",
        sender_id=NO_MEMBER,
        config=NO_CONFIG,
        term=0,
        replica_set_id=config.settings.replica_set_id,
    )
    try:
        raw = await membership.pool.command(member.host, "admin", encode_request(request), timeout=ANSWER_SECONDS)
        body = document_to_python(raw)
        reply = decode_reply(request, body)
    except CommandError as error:
        if error.code == Code.InconsistentReplicaSetNames:
            return _vetoed(
                member, f"Our set name did not match that of the request target, requestTarget:{member.host}"
            )
        return _Answer(member, error.message)
    except UNREADABLE as error:
        return _Answer(member, f"the reply cannot be read: {error!r}")
    except NetworkError as error:
        return _Answer(member, f"Error connecting to {member.host} :: caused by :: {error.reason}")
    assert isinstance(reply, HeartbeatReply)
    return _judged(config, member, reply, body)


def _judged(config: ReplicaSetConfig, member: MemberConfig, reply: HeartbeatReply, body: Mapping[str, Any]) -> _Answer:
    ours, theirs = config.settings.replica_set_id, reply.replica_set_id
    if is_foreign(ours, theirs):
        return _vetoed(
            member,
            f"Our replica set ID did not match that of our request target, replSetId: {ours}, requestTarget: "
            f"{member.host}, requestTargetReplSetId: {theirs}",
        )
    if not config.config_version.newer_than(reply.config):
        return _vetoed(
            member,
            f"Our config version of {config.config_version} is no larger than the version on {member.host}, which is "
            f"{reply.config}",
        )
    if config.version == 1 and body.get("hasData"):
        message = f"'{member.host}' has data already, cannot initiate set."
        return _Answer(member, message, CommandError(Code.CannotInitializeNodeWithData, message))
    return _Answer(member)


def _vetoed(member: MemberConfig, message: str) -> _Answer:
    return _Answer(member, message, CommandError(Code.NewReplicaSetConfigurationIncompatible, message))
