"""What must hold of a replica set after every step of any of its members, looked at from outside all of them.

* One member wins a term, and not the same one twice across a restart. Who has nobody else to ask has won when it takes
  writes: its own vote is on its way to the disk before.
* A new primary holds every entry that was committed; the terms of a log never fall.
* The committed parts of all logs are one history, which only grows; no member gives a part of it up.
* The majorities of a primary's configuration and of the one that it replaces overlap.

What changed since the last look is compared, nothing else: most steps change nothing.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docstore.collection.oplog.oplog import entry_optime
from docstore.key_layout import timestamp_key
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replication.states import MemberState, Role
from docstore.storage import Family

if TYPE_CHECKING:
    from collections.abc import Collection

    from docstore.replication.config import ReplicaSetConfig
    from docstore.replication.state import State
    from tests.simulation.process import Incarnation, Machine
    from tests.simulation.world import World


@dataclass(slots=True)
class _Seen:
    """What was last seen of one process."""

    replica_set: ReplicaSet
    term: int = 0
    writable: bool = False
    reign: int = -1
    """The last term in which it was seen to take writes."""
    role: Role = Role.FOLLOWER
    follower_state: MemberState = MemberState.STARTUP
    copied: tuple[int, int, bool] = (0, 0, False)
    """Of an initial sync: attempts, collections, and whether the log is being applied."""
    vote: Any = None
    reach: OpTime = NULL_OPTIME
    last: OpTime = NULL_OPTIME
    commit_point: OpTime = NULL_OPTIME
    config: ReplicaSetConfig | None = None


class SetInvariants:
    """Of one replica set. `moment(process, name)` hears of dangerous moments."""

    def __init__(self, world: World, set_name: str, machines: Collection[Machine]) -> None:
        """`machines`: those that may be members; others belong to another set, perhaps one of the same name."""
        self._world = world
        self._set_name = set_name
        self.primaries: dict[int, str] = {}
        self.committed: dict[int, int] = {}
        """Checksums of committed entries by timestamp; in order."""
        self._times: list[int] = []
        self._unseen: list[tuple[int, int]] = []
        """Between which times entries may have been committed that nobody has looked at."""
        self.end = NULL_OPTIME
        self._configs: ReplicaSetConfig | None = None
        self.listeners: list[Any] = []
        self.elections = 0
        self.rollbacks = 0
        for machine in machines:
            machine.checks.append(self.check)

    def check(self, process: Incarnation) -> None:
        seen = process.seen
        if seen is None:
            seen = self._begin(process)
            if seen is None:
                return
        membership = seen.replica_set.membership
        state = membership.core.state
        if state.role is not seen.role:
            seen.role = state.role
            if state.role is Role.LEADER and state.config is not None and len(state.config.voters) > 1:
                self._leader(process, state)
            self._moment(process, state.role.name.lower())
        if state.follower_state is not seen.follower_state:
            seen.follower_state = state.follower_state
            self._moment(process, state.follower_state.name.lower())
        if state.vote != seen.vote:
            seen.vote = state.vote
            if state.vote.candidate != state.my_id:
                self._moment(process, "voter")
        if state.term != seen.term:
            self._term(process, seen, state)
        if state.writable != seen.writable:
            seen.writable = state.writable
            if state.writable:
                self._primary(process, seen, state)
        if state.config is not seen.config:
            self._config(process, seen, state)
        if membership.syncing.needs_initial_sync:
            self._copying(process, seen)
        last = seen.replica_set._oplog.last
        if last != seen.last or state.commit_point != seen.commit_point:
            self._log(process, seen, state, last)

    def _begin(self, process: Incarnation) -> _Seen | None:
        node = getattr(process.node, "node", None)
        replica_set = None if node is None else node.replication
        if not isinstance(replica_set, ReplicaSet) or replica_set.set_name != self._set_name:
            return None
        if not hasattr(replica_set.membership, "syncing"):
            return None
        state = replica_set.membership.core.state
        process.seen = _Seen(replica_set, state.term, vote=state.vote, last=replica_set._oplog.last)
        return process.seen

    def _copying(self, process: Incarnation, seen: _Seen) -> None:
        """The phases of an initial sync."""
        progress = seen.replica_set.membership.syncing.progress
        now = (progress.attempts, progress.cloned, progress.applied > 0)
        if now != seen.copied:
            attempts, cloned, _ = seen.copied
            seen.copied = now
            if now[0] > attempts:
                self._moment(process, "copying")
            elif now[1] > cloned:
                self._moment(process, "cloned")
            elif now[2]:
                self._moment(process, "applying")

    def _moment(self, process: Incarnation, name: str) -> None:
        self._world.tell(process.name, f"is {name} in term {process.seen.replica_set.membership.core.state.term}")
        for listener in self.listeners:
            listener(process, name)

    def _term(self, process: Incarnation, seen: _Seen, state: State) -> None:
        if state.term < seen.term:
            self._world.fail(f"the term of {process.name} fell from {seen.term} to {state.term}")
        seen.term = state.term

    def _leader(self, process: Incarnation, state: State) -> None:
        holder = self.primaries.setdefault(state.term, process.name)
        if holder != process.name:
            self._world.fail(f"two primaries in term {state.term}: {holder} and {process.name}")

    def _primary(self, process: Incarnation, seen: _Seen, state: State) -> None:
        self._world.tell(process.name, f"takes writes in term {state.term}")
        self._leader(process, state)
        if state.term == seen.reign:
            # It has not stepped down after all; somebody else may have been elected meanwhile.
            return
        seen.reign = state.term
        self.elections += 1
        missing = self._first_missing(process)
        if missing is not None:
            self._world.fail(f"{process.name} is primary of term {state.term} without the committed entry {missing}")
        for listener in self.listeners:
            listener(process, "primary")

    def _first_missing(self, process: Incarnation) -> str | None:
        """Of the newest committed entries; a log that began with a copy of another's need not reach back to all."""
        contents = process.machine.disk.contents
        oldest = process.seen.replica_set._oplog.first.timestamp
        for timestamp in reversed(self._times[-20:]):
            if timestamp < oldest and process.seen.replica_set._oplog.last >= self.end:
                break
            entry = contents.get(Family.OPLOG, timestamp_key(timestamp))
            if entry is None or zlib.crc32(entry) != self.committed[timestamp]:
                return f"{timestamp >> 32}:{timestamp & 0xFFFFFFFF}"
        return None

    def _config(self, process: Incarnation, seen: _Seen, state: State) -> None:
        before, seen.config = seen.config, state.config
        now = state.config
        if before is None or now is None or not state.writable:
            return
        if before.config_version == now.config_version:
            return
        self._world.tell(process.name, f"has configuration {now.config_version} of {[m.host for m in now.members]}")
        if now.term < 0 or before.term < 0 or before.term != now.term:
            return
        old, new = {m.host for m in before.voters}, {m.host for m in now.voters}
        if before.majority_votes + now.majority_votes <= len(old | new):
            self._world.fail(
                f"majorities of {sorted(old)} and {sorted(new)} need not overlap: {process.name} went from config "
                f"{before.config_version} to {now.config_version}"
            )

    def _log(self, process: Incarnation, seen: _Seen, state: State, last: OpTime) -> None:
        before, seen.last, seen.commit_point = seen.last, last, state.commit_point
        if seen.replica_set.membership.syncing.needs_initial_sync:
            seen.reach = NULL_OPTIME
            return
        if last < before:
            self.rollbacks += 1
            self._world.tell(process.name, f"has gone back from {before} to {last}")
            for listener in self.listeners:
                listener(process, "undo")
            if last < seen.reach:
                self._world.fail(f"{process.name} gave up committed entries: from {seen.reach} back to {last}")
        if last.term < before.term and last.timestamp > before.timestamp:
            self._world.fail(f"the terms of the log of {process.name} fall: {before} then {last}")
        reach = min(state.commit_point, last)
        if reach <= seen.reach:
            return
        self._committed(process, seen.reach, reach)
        seen.reach = reach

    def _committed(self, process: Incarnation, after: OpTime, reach: OpTime) -> None:
        """The entries of a member's log up to `reach` are committed: compare or extend the one history."""
        contents = process.machine.disk.contents
        first = process.seen.replica_set._oplog.first.timestamp
        if self._times and first > self.end.timestamp:
            # The log begins with a copy of another's: of what was committed before that it says nothing.
            self._unseen.append((self.end.timestamp, first))
        low = max(after.timestamp + 1, 0)
        start = timestamp_key(low)
        known = self.committed
        term = -2
        for entry in contents.values(Family.OPLOG, start, timestamp_key(reach.timestamp + 1)):
            optime = entry_optime(entry)
            if optime.term < term:
                self._world.fail(f"the terms of the log of {process.name} fall at {optime}")
            term = optime.term
            checksum = zlib.crc32(entry)
            there = known.get(optime.timestamp)
            if there is None:
                if optime.timestamp <= self.end.timestamp and self._must_be_known(optime.timestamp):
                    self._world.fail(f"{process.name} holds {optime} as committed, which no other member did")
                    return
                known[optime.timestamp] = checksum
                if optime.timestamp > self.end.timestamp:
                    self._times.append(optime.timestamp)
                    self.end = optime
            elif there != checksum:
                self._world.fail(f"{process.name} committed another entry at {optime}")
                return
        if (
            reach.timestamp <= self.end.timestamp
            and reach.timestamp not in known
            and self._must_be_known(reach.timestamp)
        ):
            self._world.fail(f"{process.name} reached {reach} as committed, which no other member did")

    def _must_be_known(self, timestamp: int) -> bool:
        """Whether a committed entry of that time would have been seen before."""
        if not self._times or timestamp <= self._times[0]:
            return False
        return not any(low < timestamp < high for low, high in self._unseen)
