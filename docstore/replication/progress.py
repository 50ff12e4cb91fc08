"""Commit point and satisfied write concerns, computed from the members' positions. Pure functions.

Sources: rules 15 and 16 of the replication protocol.

* A position counts only for entries of the term it ends in: a log that ends in an older term may have other entries at
  the same place (SERVER-16570, and the commit rule of Raft section 5.4.2).
* Arbiters never count, members in initial sync never report, non-voters count for numbers but not for "majority".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.replication.config import MemberConfig, ReplicaSetConfig
from docstore.replication.messages import Position, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """The acknowledgement that a writer waits for.

    `w`: a number of members, "majority", the name of a mode in the settings, or tags, each with a number of distinct
    values.
    """

    w: int | str | tuple[tuple[str, int], ...]
    journal: bool


def commit_point(config: ReplicaSetConfig, positions: Mapping[int, Position], term: Term, current: OpTime) -> OpTime:
    """Return the newest entry of `term` on a majority of data-bearing voters (on disk, by default).

    At least `current`.
    """
    reached = sorted(
        (
            position.durable if config.journal_default else position.applied
            for member in config.voters
            if member.data_bearing and (position := positions.get(member.id)) is not None
        ),
        reverse=True,
    )
    needed = config.write_majority
    if needed == 0 or len(reached) < needed:
        return current
    candidate = reached[needed - 1]
    return candidate if candidate.term == term and candidate > current else current


def holds(position: Position, optime: OpTime, *, journal: bool, term: Term) -> bool:
    """Return True if the member certainly has the entry at `optime` in the log of the primary of `term`."""
    reached = position.durable if journal else position.applied
    return reached >= optime and reached.term in (term, optime.term)


def satisfied(
    acknowledgement: Acknowledgement,
    optime: OpTime,
    *,
    config: ReplicaSetConfig,
    positions: Mapping[int, Position],
    commit_point: OpTime,
    term: Term,
) -> bool:
    """Return True if the entry at `optime` has the requested acknowledgement (rule 16)."""
    w = acknowledgement.w
    if w == "majority":
        return commit_point >= optime
    holders = [
        member
        for member in config.members
        if member.data_bearing
        and (position := positions.get(member.id)) is not None
        and holds(position, optime, journal=acknowledgement.journal, term=term)
    ]
    if isinstance(w, int):
        return len(holders) >= w
    return _match_tags(holders, w if isinstance(w, tuple) else config.settings.modes[w].items())


def _match_tags(members: Iterable[MemberConfig], tags: Iterable[tuple[str, int]]) -> bool:
    """Return True if the members have as many distinct values of each tag."""
    listed = list(members)
    return all(len({member.tags[tag] for member in listed if tag in member.tags}) >= count for tag, count in tags)


def check_satisfiable(acknowledgement: Acknowledgement, config: ReplicaSetConfig) -> None:
    """Reject a write concern that the configuration can never satisfy.

    Errors: UnsatisfiableWriteConcern, UnknownReplWriteConcern for a mode, NoSuchKey for a tag that no member has.
    """
    w = acknowledgement.w
    if isinstance(w, tuple):
        for tag, _ in w:
            if not any(tag in member.tags for member in config.members):
                raise CommandError(Code.NoSuchKey, f"No replica set tag key {tag} in config")
        _check_tags(w, str(dict(w)), config)
        return
    if isinstance(w, int):
        if w > sum(member.data_bearing for member in config.members):
            raise CommandError(Code.UnsatisfiableWriteConcern, "Not enough data-bearing nodes")
    elif w != "majority" and w not in config.settings.modes:
        raise CommandError(
            Code.UnknownReplWriteConcern, f"No write concern mode named '{w}' found in replica set configuration"
        )
    elif w != "majority":
        _check_tags(config.settings.modes[w].items(), f'"{w}"', config)


def _check_tags(tags: Iterable[tuple[str, int]], name: str, config: ReplicaSetConfig) -> None:
    if not _match_tags((member for member in config.members if member.data_bearing), tags):
        raise CommandError(Code.UnsatisfiableWriteConcern, f"Not enough nodes match write concern mode {name}")


def on_majority(config: ReplicaSetConfig, member_ids: Iterable[int]) -> bool:
    """Return True if these members include a majority of the voters."""
    ids = set(member_ids)
    return sum(member.id in ids for member in config.voters) >= config.majority_votes


def newest(optimes: Sequence[OpTime], default: OpTime) -> OpTime:
    """Return the latest position, or `default` if there is none."""
    return max(optimes, default=default)
