"""Validation of a configuration by itself, independent of its predecessor.

There are two kinds of rules, because a reconfiguration reports them with different codes:

* Rules for single fields and members: always InvalidReplicaSetConfig.
* Rules for the whole configuration: a next one that breaks them is incompatible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docstore.errors import Code, CommandError
from docstore.replication.config import MemberConfig, ReplicaSetConfig, invalid

MAX_MEMBERS = 50
MAX_VOTERS = 7
MAX_MEMBER_ID = 2**31 - 1
MAX_VERSION = 2**31 - 1
MAX_DELAY_SECONDS = 366 * 24 * 3600


def validate(config: ReplicaSetConfig) -> None:
    """Validate a configuration. Errors: InvalidReplicaSetConfig."""
    _check_members_number(config)
    check_fields(config)
    _check_whole(config)


def check_next(config: ReplicaSetConfig) -> None:
    """Validate the next configuration.

    Errors: InvalidReplicaSetConfig for fields and members, NewReplicaSetConfigurationIncompatible for the whole.
    """
    check_fields(config)
    try:
        _check_members_number(config)
        _check_whole(config)
    except CommandError as refusal:
        raise CommandError(Code.NewReplicaSetConfigurationIncompatible, refusal.message) from None


def check_initial(document: Mapping[str, Any]) -> None:
    """Reject fields that the document of a first configuration may not have. Errors: InvalidReplicaSetConfig."""
    settings = document.get("settings")
    if isinstance(settings, Mapping) and "replicaSetId" in settings:
        raise invalid("replica set configuration cannot contain 'replicaSetId' field when called from replSetInitiate")
    members = document.get("members")
    for member in members if isinstance(members, list) else ():
        if isinstance(member, Mapping) and "newlyAdded" in member:
            raise invalid(
                f"Member {member.get('host')}, with _id MemberId({member.get('_id')}), has a newlyAdded field, which "
                "is not valid for initial configuration of a replica set."
            )


def check_fields(config: ReplicaSetConfig) -> None:
    """Validate every field and every member by itself. Errors: InvalidReplicaSetConfig."""
    if not config.set_name:
        raise invalid("Replica set configuration must have non-empty _id field")
    settings = config.settings
    for name, number, least in (
        ("version", config.version, 1),
        ("heartbeatIntervalMillis", settings.heartbeat_interval_millis, 1),
        ("heartbeatTimeoutSecs", settings.heartbeat_timeout_secs, 1),
        ("electionTimeoutMillis", settings.election_timeout_millis, 1),
        ("term", config.term, -1),
        ("catchUpTimeoutMillis", settings.catch_up_timeout_millis, -1),
        ("catchUpTakeoverDelayMillis", settings.catch_up_takeover_delay_millis, -1),
    ):
        _check_least(name, number, least)
    if config.version > MAX_VERSION:
        raise invalid(f"BSON field 'version' value must be < {MAX_VERSION + 1}, actual value '{config.version}'")
    for member in config.members:
        _check_member(member)
    for name, mode in settings.modes.items():
        for tag, count in mode.items():
            if count <= 0:
                raise invalid(f"Value of getLastErrorModes.{name}.{tag} must be positive, but found {count}")
            # A mode that cannot be satisfied now may be later; a member with its last value may be removed.
            if not any(tag in member.tags for member in config.members):
                raise invalid(f"No replica set tag key {tag} in config")


def _check_members_number(config: ReplicaSetConfig) -> None:
    count = len(config.members)
    if not 1 <= count <= MAX_MEMBERS:
        raise invalid(
            f"Replica set configuration contains {count} members, "
            f"but must have at least 1 and no more than  {MAX_MEMBERS}"
        )


def _check_whole(config: ReplicaSetConfig) -> None:
    _refuse_twins("_id", [member.id for member in config.members])
    _refuse_twins("host", [member.host.lower() for member in config.members])
    voters = sum(member.votes for member in config.members)
    if not 1 <= voters <= MAX_VOTERS:
        raise invalid(
            f"Replica set configuration contains {voters} voting members, but must be at least 1 and no more than "
            f"{MAX_VOTERS}"
        )
    if not any(member.priority > 0 and not member.arbiter_only for member in config.members):
        raise invalid("Replica set configuration must contain at least one non-arbiter member with priority > 0")
    if config.config_server and any(member.arbiter_only for member in config.members):
        raise invalid("Arbiters are not allowed in replica set configurations being used for config servers")
    if config.config_server and any(member.delay_seconds for member in config.members):
        raise invalid("Delayed members are not allowed in replica set configurations being used for config servers")


def _check_least(name: str, number: float, least: int) -> None:
    if not number >= least:
        bound = "> 0" if least == 1 else f">= {least}"
        raise invalid(f"BSON field '{name}' value must be {bound}, actual value '{number:g}'")


def _check_member(member: MemberConfig) -> None:
    if member.id < 0:
        raise invalid(f"_id field value of {member.id} can't be a negative number")
    if member.id > MAX_MEMBER_ID:
        raise invalid(f"_id field value of {member.id} is out of range.")
    _check_host(member.host)
    for name, number, most in (
        ("votes", member.votes, 1),
        ("priority", member.priority, 1000),
        ("secondaryDelaySecs", member.delay_seconds, MAX_DELAY_SECONDS),
    ):
        _check_least(name, number, 0)
        if not number <= most:
            raise invalid(f"BSON field '{name}' value must be <= {most}, actual value '{number:g}'")
    prefix = f"member {member.host}"
    if member.arbiter_only:
        if member.votes == 0:
            raise invalid("Arbiter must vote (cannot have 0 votes)")
        if member.priority not in (0, 1):
            raise invalid(f"{prefix}: the priority of an arbiter must be 0 or 1")
        if member.tags:
            raise invalid("Cannot set tags on arbiters.")
        return
    for why, applies in (
        ("when non-voting (votes:0)", member.votes == 0),
        ("when hidden=true", member.hidden),
        ("when secondaryDelaySecs is used", member.delay_seconds > 0),
    ):
        if applies and member.priority != 0:
            raise invalid(f"priority must be 0 {why}")


def _check_host(host: str) -> None:
    name, colon, port = host.rpartition(":")
    if not name:
        raise invalid(f'Empty host component parsing HostAndPort from "{host}"')
    if not colon or not port.isdigit():
        raise invalid(f"host '{host}' is not of the form name:port")
    if not 0 < int(port) < 65536:
        raise invalid(f'Port number {port} out of range parsing HostAndPort from "{host}"')


def _refuse_twins(name: str, values: Iterable[Any]) -> None:
    values = list(values)
    for at, value in enumerate(values):
        if value in values[:at]:
            label = f"MemberId({value})" if name == "_id" else value
            first = f"members.{values.index(value)}.{name}"
            raise invalid(
                f"Found two member configurations with same {name} field, {first} == members.{at}.{name} == {label}"
            )
