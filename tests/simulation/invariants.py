"""What must hold after every step of a simulated replica set, by the names under which it was model-checked."""

from __future__ import annotations

from docstore.optime import NULL_OPTIME, OpTime
from tests.simulation.cluster import Checker, Cluster, Entry, Member


class Invariants(Checker):
    """Watches one cluster; an AssertionError names what broke.

    `committed` is the one history that all commit points have agreed on so far.
    """

    def __init__(self) -> None:
        self.primaries: dict[int, tuple[str, int]] = {}
        self.committed: list[Entry] = []
        self._committed_set: set[Entry] = set()
        self.acks: list[Entry] = []
        self._seen: dict[str, tuple[int, OpTime, OpTime]] = {}
        self.undone = 0

    def became_primary(self, member: Member, term: int) -> None:
        """NoTwoPrimariesInSameTerm, nor one twice, before and after a crash; and a new primary has every committed
        entry (leader completeness).
        """
        this = (member.host, member.incarnation)
        holder = self.primaries.setdefault(term, this)
        assert holder == this, f"two primaries in term {term}: {holder} and {this}"
        assert member.log[: len(self.committed)] == self.committed, (
            f"{member.host} became primary of term {term} without {self._missing(member.log)}"
        )

    def stepped(self, member: Member) -> None:
        """CommitPointMonotonic, and every member's committed prefix is one history (StateMachineSafety)."""
        point = member.core.state.commit_point
        known = self._seen.get(member.host)
        if known == (member.incarnation, point, member.last):
            return
        if known is not None and known[0] == member.incarnation:
            assert point >= known[1], f"the commit point of {member.host} fell from {known[1]} to {point}"
        self._seen[member.host] = (member.incarnation, point, member.last)
        reach = min(point, member.last)
        if reach == NULL_OPTIME:
            return
        if member.core.state.writable or not self.committed or reach > self.committed[-1].optime:
            prefix = [entry for entry in member.log if entry.optime <= reach]
            shared = min(len(prefix), len(self.committed))
            assert prefix[:shared] == self.committed[:shared], f"{member.host} committed another history"
            for entry in prefix[shared:]:
                self.committed.append(entry)
                self._committed_set.add(entry)
        else:
            held = next((entry for entry in reversed(member.log) if entry.optime <= reach), None)
            assert held is None or held in self._committed_set, f"{member.host} holds {held} as committed, nobody else"

    def rolled_back(self, member: Member, undone: list[Entry]) -> None:
        """NeverRollbackCommitted."""
        lost = [entry for entry in undone if entry in self._committed_set]
        assert not lost, f"{member.host} rolled back committed entries {lost}"
        self.undone += len(undone)

    def acknowledged(self, entry: Entry) -> None:
        """A w: "majority" write was acknowledged: it must be committed now and stay so."""
        assert entry in self._committed_set, f"{entry} acknowledged before it was committed"
        self.acks.append(entry)

    def check_end(self, cluster: Cluster) -> None:
        """After everything was healed: one primary, equal logs, every acknowledged write in them."""
        primary = cluster.primary()
        assert primary is not None, "no primary although all members can talk"
        config = primary.core.state.config
        assert config is not None
        for member in cluster.members.values():
            named = config.member_at(member.host)
            if named is not None and named.data_bearing:
                assert member.log == primary.log, f"{member.host} has not converged with {primary.host}"
        held = set(primary.log)
        lost = [entry for entry in self.acks if entry not in held]
        assert not lost, f"majority-acknowledged writes lost: {lost}"

    def _missing(self, log: list[Entry]) -> Entry | None:
        held = set(log)
        return next((entry for entry in self.committed if entry not in held), None)
