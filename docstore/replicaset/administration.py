"""Administrative commands that take several events: initiate, reconfigure, step down.

Before a configuration is installed, its members are asked (`quorum_check`). A reconfiguration waits until the previous
configuration has settled, and afterwards until the new one is on a majority of its voters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from bson.objectid import ObjectId

from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.replicaset.quorum_check import check_change, check_initiation
from docstore.replication.config import (
    MemberConfig,
    ReplicaSetConfig,
    Settings,
    parse_config,
)
from docstore.replication.config_rules import check_initial, check_next
from docstore.replication.messages import (
    FollowerState,
    Initiate,
    Progress,
    Reconfigure,
    StepDown,
)
from docstore.replication.progress import on_majority
from docstore.replication.reconfig import check_first, proposed, unsettled
from docstore.replication.states import MemberState

if TYPE_CHECKING:
    from docstore.replicaset.replicaset import ReplicaSet

LOG = component("REPL")
SETTLE_SECONDS = 10.0


async def initiate(replica_set: ReplicaSet, document: Mapping[str, Any]) -> dict[str, Any]:
    """Execute `replSetInitiate` and return the reply's fields; an empty document makes a set of this one member."""
    membership = replica_set.membership
    reply: dict[str, Any] = {}
    if membership.state.config is not None:
        raise CommandError(Code.AlreadyInitialized, "already initialized")
    if document:
        check_initial(document)
        config = parse_config(document)
    else:
        config = _own_config(replica_set)
        # One field has the wording of 2012, the other today's.
        reply["info2"] = "no configuration specified. Using a default configuration for the set"
        reply["me"] = replica_set.host
        reply["info"] = "Config now saved locally.  Should come online in about a minute."
    config = _completed(config)
    await membership.find_own_hosts(config)
    if config.config_server != membership.identity.config_server:
        raise CommandError(
            Code.InvalidReplicaSetConfig,
            "Nodes started with the --configsvr flag must have configsvr:true in their config"
            if membership.identity.config_server
            else "Nodes being used for config servers must be started with the --configsvr flag",
        )
    check_first(config, membership.state.set_name, membership.state.own_hosts)
    await check_initiation(membership, config)
    if membership.state.config is not None:
        raise CommandError(Code.AlreadyInitialized, "already initialized")
    seed = membership.seed_log()
    await membership.flush()
    membership.deliver(Progress(applied=seed, durable=seed))
    membership.deliver(FollowerState(state=MemberState.SECONDARY))
    await membership.request(lambda token: Initiate(config=config, token=token))
    return reply


async def reconfigure(
    replica_set: ReplicaSet, document: Mapping[str, Any], *, force: bool, deadline: float | None
) -> dict[str, Any]:
    """Execute `replSetReconfig`; return once the configuration is on a majority of its voters (if forced, at once)."""
    membership = replica_set.membership
    state = membership.state
    if state.config is None:
        raise CommandError(Code.NotYetInitialized, "no replset config has been received")
    if "version" not in document:
        raise CommandError(
            Code.InvalidReplicaSetConfig, "BSON field 'ReplSetConfig.version' is missing but a required field"
        )
    config = parse_config(document)
    if any(member.newly_added for member in config.members):
        raise CommandError(
            Code.InvalidReplicaSetConfig, "Cannot provide newlyAdded field to member config during reconfig."
        )
    check_next(config)
    await membership.find_own_hosts(config)
    concern_is_set = replica_set.concern_defaults.write is not None
    limit = _seconds_left(deadline)
    if not force and state.writable:
        await replica_set.wait_for(lambda: not state.writable or not unsettled(state), limit)
    if not force:
        await check_change(
            membership, state.config, proposed(state, config, force=False, concern_is_set=concern_is_set)
        )
    LOG.info("replSetReconfig admin command received from client", newConfig=config.to_document(), force=force)
    installed = await membership.request(
        lambda token: Reconfigure(config=config, force=force, concern_is_set=concern_is_set, token=token)
    )
    if force:
        return {}

    def settled() -> bool:
        current = state.config
        assert current is not None
        if current.config_version != installed or not state.writable:
            return True
        having = [
            member.id
            for member in current.members
            if member.id == state.my_id
            or ((peer := state.peers.get(member.host)) is not None and peer.config == installed)
        ]
        return on_majority(current, having)

    if not await replica_set.wait_for(settled, _seconds_left(deadline)):
        raise CommandError(
            Code.MaxTimeMSExpired,
            f"the new configuration {installed} is installed here but not yet on a majority of its voting members",
        )
    if not state.writable:
        raise CommandError(Code.PrimarySteppedDown, "Primary stepped down while waiting for the new configuration")
    return {}


async def step_down(replica_set: ReplicaSet, seconds: float, catch_up_seconds: float | None, *, force: bool) -> None:
    """Execute `replSetStepDown`.

    Errors: BadValue, NotWritablePrimary, ExceededTimeLimit if no member can take over.
    """
    membership = replica_set.membership
    if membership.state.config is None:
        raise CommandError(Code.NotYetInitialized, "no replset config has been received")
    if seconds <= 0:
        raise CommandError(Code.BadValue, "stepdown period must be a positive integer")
    if catch_up_seconds is None:
        catch_up_seconds = 0.0 if force else 10.0
    elif catch_up_seconds < 0:
        raise CommandError(Code.BadValue, "secondaryCatchUpPeriodSecs period must be a positive or absent")
    if seconds < catch_up_seconds:
        raise CommandError(Code.BadValue, "stepdown period must be longer than secondaryCatchUpPeriodSecs")
    wait = catch_up_seconds
    await membership.request(lambda token: StepDown(seconds=seconds, catch_up_seconds=wait, force=force, token=token))


def _seconds_left(deadline: float | None) -> float:
    if deadline is None:
        return SETTLE_SECONDS
    return max(deadline - monotonic(), 0.0)


def _own_config(replica_set: ReplicaSet) -> ReplicaSetConfig:
    return ReplicaSetConfig(
        set_name=replica_set.set_name,
        version=1,
        members=(MemberConfig(id=0, host=replica_set.host),),
        config_server=replica_set.membership.identity.config_server,
    )


def _completed(config: ReplicaSetConfig) -> ReplicaSetConfig:
    settings: Settings = config.settings
    if settings.replica_set_id is None:
        settings = replace(settings, replica_set_id=ObjectId())
    members = tuple(replace(member, newly_added=False) for member in config.members)
    return replace(config, term=0, settings=settings, members=members)
