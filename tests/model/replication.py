"""Elections, the commit point and reconfiguration of a set of three, in small scope.

What decides is the shipping core: whether a vote is given (`votes.vote`), how far a primary commits
(`progress.commit_point`), whether and how a configuration is changed (`reconfig.proposed`, `promote_newly_added`,
`stamp_term`), which of two is newer. The model's own are the logs, which are tuples of terms, and the network: a step
reaches whom it reaches, or nobody. What a primary knows of the others is what is true of them when it decides; a member
that is in a higher term tells nothing.

A log entry is a term and a place. Members 0, 1, 2 stand at hosts of their own; configurations may name strangers that
never answer. Each member may crash once: its term is then what vote and log remember.

Invariants, checked by the step that could break them: one primary a term; a new primary has all that was committed;
what was committed is one history, and no member gives any of it up once it was counted for it; the majorities of a
configuration and the next one overlap.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from docstore.errors import CommandError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication import progress, reconfig, votes
from docstore.replication.config import MemberConfig, ReplicaSetConfig
from docstore.replication.effects import Reply
from docstore.replication.messages import NO_MEMBER, LastVote, Position, VoteRequest
from docstore.replication.state import State
from docstore.replication.states import MemberState, PrimaryState, Role
from tests.model.exploration import Violation

Log = tuple[int, ...]
"""The term of each entry."""
Heard = tuple[tuple[OpTime, int] | None, ...]
"""Of each member its position and configuration; None where nothing is heard."""


class Member(NamedTuple):
    """`config` is a number in the model's table. `commit` and `target` are a primary's: how many entries it knows to be
    committed, and how many were when its configuration was installed."""

    term: int
    vote_term: int
    vote: int
    log: Log
    config: int
    leads: bool = False
    commit: int = 0
    target: int = 0
    crashed: bool = False


class World(NamedTuple):
    """`committed`: the longest history that a primary has seen committed. `primaries`: by term, or NO_MEMBER."""

    members: tuple[Member, ...]
    committed: Log
    primaries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """How far the exploration goes. `reconfigs`: the highest version of a configuration; the first has version 1."""

    members: int = 3
    terms: int = 3
    entries: int = 4
    versions: int = 1
    crashes: bool = False
    strangers: bool = False


@dataclass
class Model:
    """The steps of a scope."""

    scope: Scope
    configs: list[ReplicaSetConfig] = field(default_factory=list)
    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        members = tuple(MemberConfig(id=number, host=_host(number)) for number in range(self.scope.members))
        self._first = self._number(ReplicaSetConfig(set_name="set", version=1, term=1, members=members))
        self._vote = lru_cache(maxsize=None)(self._decide_vote)
        self._stamped = lru_cache(maxsize=None)(self._decide_stamp)
        self._next_configs = lru_cache(maxsize=None)(self._decide_next_configs)
        self._heard = lru_cache(maxsize=None)(self._decide_heard)
        self._renamed_config = lru_cache(maxsize=None)(self._rename_config)

    def initial(self) -> World:
        """Member 0 is primary of term 1, and its first entry is everywhere."""
        others = [Member(1, 1, 0, (1,), self._first) for _ in range(1, self.scope.members)]
        first = Member(1, 1, 0, (1,), self._first, leads=True, commit=1)
        return World((first, *others), (1,), (0, *[NO_MEMBER] * (self.scope.terms - 1)))

    def successors(self, world: World) -> Iterator[tuple[str, World]]:
        for number, member in enumerate(world.members):
            if member.leads:
                yield from self._write(world, number)
                yield from self._reconfigure(world, number)
            else:
                yield from self._run(world, number)
                yield from self._fetch(world, number)
            yield from self._hear_config(world, number)
            if self.scope.crashes and not member.crashed and (member.leads or _restarted(member).term < member.term):
                yield f"{number} crashes", _with(world, number, _restarted(member))

    def canonical(self, world: World) -> World:
        """Members are told apart by what they hold only: they are sorted by that and renamed. What can never matter any
        more is forgotten.
        """
        members = [self._forgetting(member) for member in world.members]
        order = sorted(range(len(members)), key=lambda number: self._features(members[number]))
        names = {old: new for new, old in enumerate(order)} | {NO_MEMBER: NO_MEMBER}
        renaming = tuple(names[old] for old in range(len(members)))
        renamed = tuple(
            members[old]._replace(
                vote=names[members[old].vote], config=self._renamed_config(members[old].config, renaming)
            )
            for old in order
        )
        return World(renamed, world.committed, tuple(names[number] for number in world.primaries))

    def _forgetting(self, member: Member) -> Member:
        """A vote of an earlier term matters to a restart only."""
        if member.vote_term < member.term and (member.crashed or not self.scope.crashes):
            return member._replace(vote_term=0, vote=NO_MEMBER)
        return member

    def _features(self, member: Member) -> tuple[Any, ...]:
        version = self.configs[member.config].config_version
        return (member.leads, member.term, member.log, member.vote_term, version, member.commit, member.crashed)

    def _rename_config(self, number: int, renaming: tuple[int, ...]) -> int:
        config = self.configs[number]
        members = [
            replace(
                member, id=renaming[member.id], host=member.host.replace(str(member.id), str(renaming[member.id]), 1)
            )
            for member in config.members
        ]
        return self._number(replace(config, members=tuple(sorted(members, key=lambda member: member.id))))

    # Elections

    def _run(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        member = world.members[number]
        config = self.configs[member.config]
        term = member.term + 1
        if term > self.scope.terms or not self._is_voter(number, config):
            return
        candidate = member._replace(term=term, vote_term=term, vote=number)
        others = [other for other in range(len(world.members)) if other != number]
        for size in range(len(others) + 1):
            for reached in itertools.combinations(others, size):
                yield (
                    f"{number} runs in term {term}, reaching {reached}",
                    self._ballot(world, number, candidate, reached),
                )

    def _ballot(self, world: World, number: int, candidate: Member, reached: tuple[int, ...]) -> World:
        config = self.configs[candidate.config]
        granted = {number}
        after = world
        for other in reached:
            voter, given = self._vote(world.members[other], other, candidate, number)
            after = _with(after, other, voter)
            if given:
                granted.add(other)
            candidate = candidate._replace(term=max(candidate.term, voter.term))
        term = candidate.vote_term
        if candidate.term > term or not progress.on_majority(config, granted & self._ids(config)):
            return _with(after, number, candidate)
        return self._win(_with(after, number, candidate), number)

    def _win(self, world: World, number: int) -> World:
        member = world.members[number]
        term = member.term
        if world.primaries[term - 1] not in (NO_MEMBER, number):
            raise Violation(f"two primaries in term {term}: {world.primaries[term - 1]} and {number}")
        if member.log[: len(world.committed)] != world.committed:
            raise Violation(f"{number} became primary of term {term} with {member.log}, without {world.committed}")
        if len(member.log) >= self.scope.entries:
            return world
        primaries = tuple(number if each == term - 1 else other for each, other in enumerate(world.primaries))
        config = self._stamped(member.config, term)
        leader = member._replace(log=(*member.log, term), leads=True, commit=0, target=0, config=config)
        return self._commit(_with(world._replace(primaries=primaries), number, leader))

    def _decide_vote(self, voter: Member, number: int, candidate: Member, by: int) -> tuple[Member, bool]:
        state = self._state(voter, number)
        request = VoteRequest(
            set_name="set",
            dry_run=False,
            term=candidate.vote_term,
            candidate=by,
            config=self.configs[candidate.config].config_version,
            last_op=_last(candidate.log),
        )
        effects: list[object] = []
        votes.vote(state, request, 0.0, effects)  # type: ignore[arg-type]
        (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
        leads = voter.leads and state.role is Role.LEADER
        after = voter._replace(term=state.term, vote_term=state.vote.term, vote=state.vote.candidate, leads=leads)
        return _settled(after), bool(reply.result.granted)  # type: ignore[union-attr]

    # The log

    def _write(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        member = world.members[number]
        if len(member.log) < self.scope.entries:
            written = member._replace(log=(*member.log, member.term))
            yield f"{number} writes", self._commit(_with(world, number, written))

    def _fetch(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        """One entry, or back to the common point."""
        member = world.members[number]
        for source, other in enumerate(world.members):
            if source == number or _last(other.log) <= _last(member.log):
                continue
            if other.log[: len(member.log)] == member.log:
                entry = other.log[len(member.log)]
                fetched = member._replace(log=(*member.log, entry), term=max(member.term, entry))
                yield f"{number} fetches an entry from {source}", self._commit(_with(world, number, fetched))
            else:
                common = _common(member.log, other.log)
                yield f"{number} rolls back to {common}", _with(world, number, member._replace(log=member.log[:common]))

    def _commit(self, world: World) -> World:
        """Every primary learns how far the others are that are not in a higher term, and commits."""
        for number, member in enumerate(world.members):
            if member.leads:
                world = self._commit_of(world, number)
        return world

    def _commit_of(self, world: World, number: int) -> World:
        leader = world.members[number]
        config = self.configs[leader.config]
        positions = {}
        for other, member in enumerate(world.members):
            if member.term <= leader.term and config.member_at(_host(other)) is not None:
                last = _last(member.log)
                positions[other] = Position(member=other, host=_host(other), applied=last, durable=last)
        reached = progress.commit_point(config, positions, leader.term, _last(leader.log[: leader.commit]))
        if reached.timestamp <= leader.commit:
            return world
        history = leader.log[: reached.timestamp]
        shared = min(len(history), len(world.committed))
        if history[:shared] != world.committed[:shared]:
            raise Violation(f"{number} commits {history} where {world.committed} was committed")
        committed = max(history, world.committed, key=len)
        return _with(world, number, leader._replace(commit=reached.timestamp))._replace(committed=committed)

    # Configurations

    def _reconfigure(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        leader = world.members[number]
        if self.configs[leader.config].version >= self.scope.versions:
            return
        heard = tuple(
            (_last(member.log), member.config) if member.term <= leader.term else None for member in world.members
        )
        for story, config in self._next_configs(leader, number, heard):
            installed = leader._replace(config=config, target=leader.commit)
            if not _majorities_overlap(self.configs[leader.config], self.configs[config]):
                before, after = _voters(self.configs[leader.config]), _voters(self.configs[config])
                raise Violation(f"{number} {story}: majorities of {before} and {after} do not overlap")
            yield f"{number} {story}", self._commit(_with(world, number, installed))

    def _decide_next_configs(self, leader: Member, number: int, heard: Heard) -> list[tuple[str, int]]:
        """What the primary may install now, knowing the position and the configuration of others."""
        current = self.configs[leader.config]
        state = self._leader(leader, number, heard)
        reconfig.promote_newly_added(state, 0.0, [])
        if state.config is not current and state.config is not None:
            return [("promotes a new voter", self._number(state.config))]
        found = []
        for wanted in self._proposals(number):
            if [m.identity for m in wanted] == [m.identity for m in current.members]:
                continue
            proposal = replace(current, version=current.version + 1, members=wanted)
            with contextlib.suppress(CommandError):
                config = reconfig.proposed(self._leader(leader, number, heard), proposal, force=False)
                names = ", ".join(m.host + ("?" if m.newly_added else "") for m in config.members)
                found.append((f"reconfigures to {names}", self._number(config)))
        return found

    def _proposals(self, number: int) -> Iterator[tuple[MemberConfig, ...]]:
        """All subsets with the primary in them, and the same ids at strangers' hosts."""
        others = [other for other in range(self.scope.members) if other != number]
        for size in range(len(others) + 1):
            for kept in itertools.combinations(others, size):
                chosen = sorted((number, *kept))
                yield tuple(MemberConfig(id=each, host=_host(each)) for each in chosen)
        if self.scope.strangers:
            hosts = [_host(each) if each == number else f"stranger{each}:1" for each in range(self.scope.members)]
            yield tuple(MemberConfig(id=each, host=host) for each, host in enumerate(hosts))

    def _hear_config(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        member = world.members[number]
        mine = self.configs[member.config]
        for source, other in enumerate(world.members):
            theirs = self.configs[other.config]
            if source == number or not theirs.config_version.newer_than(mine.config_version):
                continue
            after = self._heard(member, number, other.config)
            yield f"{number} hears of {theirs.config_version} from {source}", self._commit(_with(world, number, after))

    def _decide_heard(self, member: Member, number: int, config: int) -> Member:
        state = self._state(member, number)
        reconfig.heard_of(state, self.configs[config], 0.0, [])
        leads = member.leads and state.role is Role.LEADER
        after = member._replace(config=config, term=state.term, leads=leads, target=member.commit)
        return _settled(after._replace(vote=state.vote.candidate))

    def _decide_stamp(self, config: int, term: int) -> int:
        state = State("set", lambda: 0.5)
        state.config, state.term = self.configs[config], term
        reconfig.stamp_term(state, 0.0, [])
        assert state.config is not None
        return self._number(state.config)

    # The core's own state, made from the model's

    def _state(self, member: Member, number: int) -> State:
        state = State("set", lambda: 0.5, {_host(number)})
        reconfig.adopt(state, self.configs[member.config], 0.0)
        state.term, state.vote = member.term, LastVote(term=member.vote_term, candidate=member.vote)
        state.applied = state.durable = _last(member.log)
        state.follower_state = MemberState.SECONDARY
        if member.leads:
            state.role, state.primary_state, state.primary_id = Role.LEADER, PrimaryState.WRITABLE, number
            state.commit_point = _last(member.log[: member.commit])
            state.config_target = _last(member.log[: member.target])
        return state

    def _leader(self, leader: Member, number: int, heard: Heard) -> State:
        """With what it hears from the others."""
        state = self._state(leader, number)
        for other, news in enumerate(heard):
            peer = state.peers.get(_host(other))
            if peer is not None and news is not None:
                last, config = news
                peer.advance(last, last)
                peer.config = self.configs[config].config_version
                peer.up, peer.state = True, MemberState.SECONDARY
        return state

    def _number(self, config: ReplicaSetConfig) -> int:
        members = tuple((*member.identity, member.votes, member.newly_added) for member in config.members)
        key = (config.config_version, members)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.configs)
            self.configs.append(config)
        return found

    def _is_voter(self, number: int, config: ReplicaSetConfig) -> bool:
        member = config.member_at(_host(number))
        return member is not None and member.voter and member.electable

    def _ids(self, config: ReplicaSetConfig) -> set[int]:
        """Members of the model that the configuration names at their hosts."""
        return {number for number in range(self.scope.members) if config.member_at(_host(number)) is not None}


def _host(number: int) -> str:
    return f"m{number}:1"


def _last(log: Log) -> OpTime:
    return OpTime(log[-1], len(log)) if log else NULL_OPTIME


def _common(one: Log, two: Log) -> int:
    """How many entries two logs share: those in front of the first place where terms differ."""
    pairs = zip(one, two, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))


def _with(world: World, number: int, member: Member) -> World:
    members = world.members
    return world._replace(members=(*members[:number], member, *members[number + 1 :]))


def _restarted(member: Member) -> Member:
    remembered = max(member.vote_term, _last(member.log).term, 0)
    return _settled(member._replace(term=remembered, leads=False, crashed=True))


def _settled(member: Member) -> Member:
    """What only a primary knows is forgotten with being one."""
    return member if member.leads else member._replace(commit=0, target=0)


def _voters(config: ReplicaSetConfig) -> list[str]:
    return [member.host for member in config.voters]


def _majorities_overlap(before: ReplicaSetConfig, after: ReplicaSetConfig) -> bool:
    """Whether every majority of the voters of one meets every majority of the other, by host."""
    return all(
        set(one) & set(two)
        for one in itertools.combinations(_voters(before), before.majority_votes)
        for two in itertools.combinations(_voters(after), after.majority_votes)
    )
