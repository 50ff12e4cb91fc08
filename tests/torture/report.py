"""The outcome of a run, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.checkers.history import Anomaly, Operation, Outcome

SHOWN = 12


@dataclass
class Report:
    """What happened in one run; `undecided` are searches that gave up, which is neither good nor bad."""

    title: str
    operations: list[Operation]
    faults: Counter[str]
    errors: Counter[str]
    seconds: float
    unavailable: float
    anomalies: list[Anomaly]
    undecided: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [self.title, f"  {len(self.operations)} operations in {self.seconds:.0f} s:"]
        for kind, outcomes in sorted(_outcomes(self.operations).items()):
            lines.append(f"    {kind:24}" + "".join(f"{name} {outcomes[name]:<8}" for name in Outcome))
        lines.append("  faults: " + _counts(self.faults))
        lines.append("  errors that clients met: " + _counts(self.errors))
        lines.append(f"  longest time without a majority write: {self.unavailable:.1f} s")
        lines.append("  " + _latency(self.operations))
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  undecided: {text}" for text in self.undecided]
        lines.append(f"  anomalies: {_counts(Counter(each.kind for each in self.anomalies))}")
        lines += [f"  {anomaly}" for anomaly in self.anomalies[:SHOWN]]
        if len(self.anomalies) > SHOWN:
            lines.append(f"  ... and {len(self.anomalies) - SHOWN} more")
        return "\n".join(lines)


def _outcomes(operations: Iterable[Operation]) -> dict[str, Counter[Outcome]]:
    found: dict[str, Counter[Outcome]] = {}
    for each in operations:
        concern = each.read_concern if each.kind.reads else each.w
        found.setdefault(f"{each.kind} {concern}", Counter())[each.outcome] += 1
    return found


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


def _latency(operations: Iterable[Operation]) -> str:
    """Return how long the operations that succeeded took, in milliseconds."""
    seconds = sorted(each.ended - each.invoked for each in operations if each.ok)
    if not seconds:
        return "no operation succeeded"
    median, late = seconds[len(seconds) // 2], seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)]
    return f"took ms: median {median * 1000:.0f}, 99th percentile {late * 1000:.0f}, longest {seconds[-1] * 1000:.0f}"
