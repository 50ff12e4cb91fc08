"""A replica set in one process: the shipping core over a fake clock, network and disk.

The only model here is the driver's: a log that is a list, a fetcher that asks for what comes after its last entry, a
disk that keeps what was flushed. Everything random comes from one seeded generator, so a seed replays its schedule
exactly.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication import leadership
from docstore.replication.config import MemberConfig, ReplicaSetConfig, Settings
from docstore.replication.core import Core
from docstore.replication.effects import (
    BecomePrimary,
    Drain,
    Effect,
    EffectQueue,
    Follow,
    Persist,
    Reply,
    Send,
    SteppedDown,
)
from docstore.replication.matching import CommonPoint, Verdict, judge
from docstore.replication.messages import (
    NO_VOTE,
    Answered,
    BecamePrimary,
    CatchUpEnded,
    Drained,
    Event,
    FollowerState,
    Initiate,
    LastVote,
    Progress,
    Reconfigure,
    SourceFailed,
    StepDown,
)
from docstore.replication.progress import Acknowledgement, satisfied
from docstore.replication.states import MemberState

FETCH_LIMIT = 20
FETCH_TIMEOUT = 0.5
AWAIT_DATA = 0.2


class Entry(NamedTuple):
    """A log entry; `value` is None for the no-op of a new primary."""

    optime: OpTime
    value: int | None


@dataclass
class Disk:
    """What a crash leaves."""

    vote: LastVote = NO_VOTE
    config: ReplicaSetConfig | None = None
    log: list[Entry] = field(default_factory=list)


class Checker:
    """Interface of what watches the cluster; see `invariants`."""

    def became_primary(self, member: Member, term: int) -> None: ...
    def stepped(self, member: Member) -> None: ...
    def rolled_back(self, member: Member, undone: list[Entry]) -> None: ...
    def acknowledged(self, entry: Entry) -> None: ...


class Cluster:
    """Members, the network between them, and the queue of what happens next."""

    def __init__(
        self, seed: int, members: list[MemberConfig], checker: Checker, *, settings: Settings, spares: int = 0
    ) -> None:
        """`spares`: so many more processes run that the first configuration does not name."""
        self.random = random.Random(seed)
        self.now = 1000.0
        self.steps = 0
        self.checker = checker
        self.loss = 0.0
        self.cut: set[tuple[str, str]] = set()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self.config = ReplicaSetConfig(set_name="set", version=1, term=0, members=tuple(members), settings=settings)
        hosts = [member.host for member in members] + [f"spare{number}:1" for number in range(spares)]
        self.members = {host: Member(self, host) for host in hosts}
        self.trace: list[str] = []

    def at(self, delay: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now + delay, self._sequence, action))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            self.steps += 1
            action()
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit: float) -> bool:
        """Let time pass until the condition holds; False after `limit` seconds."""
        end = self.now + limit
        while not condition():
            if self.now >= end:
                return False
            self.run(0.01)
        return True

    def start(self) -> None:
        """All members up, the first one initiated."""
        for member in self.members.values():
            member.start()
        first = next(iter(self.members.values()))
        first.log.append(Entry(OpTime(0, 1), None))
        first.flush_now()
        first.deliver(FollowerState(state=MemberState.SECONDARY))
        first.deliver(Initiate(config=self.config))

    def call(self, sender: str, to: str, request: Any, timeout: float, done: Callable[[Any], None]) -> None:
        """A request over the network: `done(reply)` once, with None when it or its reply was lost."""
        answered = [False]

        def finish(reply: Any) -> None:
            if not answered[0]:
                answered[0] = True
                done(reply)

        def arrive() -> None:
            target = self.members.get(to)
            if target is None or not target.running:
                self.at(self._delay(), lambda: finish(None))  # connection refused
                return
            target.serve(request, lambda reply: self._carry(to, sender, lambda: finish(reply)))

        self._carry(sender, to, arrive)
        self.at(timeout, lambda: finish(None))

    def _carry(self, sender: str, to: str, action: Callable[[], None]) -> None:
        if (sender, to) not in self.cut and self.random.random() >= self.loss:
            self.at(self._delay(), lambda: None if (sender, to) in self.cut else action())

    def _delay(self) -> float:
        return self.random.expovariate(1 / 0.004) + 0.0005

    def primary(self) -> Member | None:
        """The writable member of the highest term."""
        writable = [member for member in self.members.values() if member.running and member.core.state.writable]
        return max(writable, key=lambda member: member.core.state.term, default=None)

    def running(self) -> list[Member]:
        return [member for member in self.members.values() if member.running]


class Member:
    """One process: a core, a log, a fetcher, and effects waiting for the disk."""

    def __init__(self, cluster: Cluster, host: str) -> None:
        self.cluster = cluster
        self.host = host
        self.disk = Disk()
        self.running = False
        self.incarnation = 0
        self.rollbacks = 0
        self.skew = 0
        self.log: list[Entry] = []

    def start(self) -> None:
        assert not self.running
        self.running = True
        self.incarnation += 1
        self.log = list(self.disk.log)
        self.flushed = len(self.log)
        self.flushing = False
        self.source: str | None = None
        self.fetch_number = 0
        self.effects = EffectQueue()
        self.answers: dict[int, Callable[[Any], None]] = {}
        self.next_token = 1
        self.waiting: list[tuple[Entry, Acknowledgement, int]] = []
        self.timer = 0
        self.tails: list[Callable[[], None]] = []
        self.core = Core(
            "set",
            rng=self.cluster.random.random,
            own_hosts=[self.host],
            config=self.disk.config,
            vote=self.disk.vote,
            last_op=self.last,
            now=self.cluster.now,
        )
        self.deliver(FollowerState(state=MemberState.SECONDARY))

    def crash(self) -> None:
        """Lose everything that is not on disk."""
        self.running = False

    @property
    def last(self) -> OpTime:
        return self.log[-1].optime if self.log else NULL_OPTIME

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """`action` after `delay`, unless the process has died in between."""
        incarnation = self.incarnation
        self.cluster.at(delay, lambda: action() if self.running and self.incarnation == incarnation else None)

    def deliver(self, event: Event) -> None:
        self._perform(self.core.receive(event, self.cluster.now))

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """A request from another member."""
        if isinstance(request, _Fetch):
            self._serve_fetch(request, answer)
            return
        token, self.next_token = self.next_token, self.next_token + 1
        self.answers[token] = answer
        self.deliver(_with_token(request, token))

    def write(self, value: int, w: Acknowledgement) -> None:
        """A client's write, if this member takes writes."""
        if self.core.state.writable:
            entry = self._append(self.core.state.term, value)
            self.waiting.append((entry, w, self.core.state.term))
            self._progress()

    def step_down(self, seconds: float) -> None:
        self.deliver(StepDown(seconds=seconds, catch_up_seconds=seconds / 2))

    def reconfigure(self, config: ReplicaSetConfig) -> None:
        self.deliver(Reconfigure(config=config))

    def flush_now(self) -> None:
        self.disk.log = list(self.log)
        self.flushed = len(self.log)
        self.deliver(Progress(applied=self.last, durable=self.last))

    def _append(self, term: int, value: int | None) -> Entry:
        clock = int(self.cluster.now * 10) + self.skew
        entry = Entry(OpTime(term, max(clock, self.last.timestamp + 1)), value)
        self.log.append(entry)
        return entry

    def _progress(self) -> None:
        durable = self.log[self.flushed - 1].optime if self.flushed else NULL_OPTIME
        self._wake_tails()
        self.deliver(Progress(applied=self.last, durable=durable))
        if not self.flushing and self.flushed < len(self.log):
            self.flushing = True
            reached, rollbacks = len(self.log), self.rollbacks
            self.later(self.cluster.random.uniform(0.001, 0.02), lambda: self._flushed(reached, rollbacks))

    def _flushed(self, reached: int, rollbacks: int) -> None:
        self.flushing = False
        if rollbacks == self.rollbacks:
            self.disk.log = self.log[:reached]
            self.flushed = reached
        self._progress()

    def _perform(self, effects: list[Effect]) -> None:
        self.effects.add(effects)
        self._drain_effects()
        self._settle()

    def _drain_effects(self) -> None:
        while (effect := self.effects.next()) is not None:
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Persist():
                self.effects.hold()
                self.later(self.cluster.random.uniform(0.001, 0.015), lambda: self._persisted(effect))
            case Send():
                incarnation = self.incarnation
                started = self.cluster.now

                def done(reply: Any) -> None:
                    if self.running and self.incarnation == incarnation:
                        took = self.cluster.now - started
                        self.deliver(Answered(peer=effect.to, request=effect.request, reply=reply, round_trip=took))

                self.cluster.call(self.host, effect.to, effect.request, effect.timeout, done)
            case Reply():
                answer = self.answers.pop(effect.token, None)
                if answer is not None:
                    answer(None if isinstance(effect.result, Exception) else effect.result)
            case Follow():
                self.source = effect.source
                self.fetch_number += 1
                if effect.source is not None:
                    self._fetch(self.fetch_number)
            case Drain():
                self.source = None
                self.fetch_number += 1
                self.later(0.001, lambda: self.deliver(Drained(term=effect.term)))
            case BecomePrimary():
                if self.core.state.term == effect.term and self.core.state.primary_state is not None:
                    self.cluster.checker.became_primary(self, effect.term)
                    self._append(effect.term, None)
                    self._progress()
                    self.deliver(BecamePrimary(term=effect.term))
            case SteppedDown():
                self.waiting.clear()

    def _persisted(self, effect: Persist) -> None:
        if effect.vote is not None:
            self.disk.vote = effect.vote
        if effect.config is not None:
            self.disk.config = effect.config
        self.effects.release()
        self._drain_effects()
        self._settle()

    def _settle(self) -> None:
        """After every event: acknowledge, let the checker look, set the next tick."""
        state = self.core.state
        self.core.check()
        self.cluster.checker.stepped(self)
        still = []
        for entry, w, term in self.waiting:
            if not state.writable or state.term != term:
                continue
            if state.config is not None and satisfied(
                w,
                entry.optime,
                config=state.config,
                positions=leadership.positions(state),
                commit_point=state.commit_point,
                term=state.term,
            ):
                if w.w == "majority":
                    self.cluster.checker.acknowledged(entry)
            else:
                still.append((entry, w, term))
        self.waiting = still
        self.timer += 1
        timer = self.timer
        delay = max(0.0, self.core.next_wakeup() - self.cluster.now)
        if delay < 1e6:
            self.later(delay, lambda: self._tick(timer))

    def _tick(self, timer: int) -> None:
        if timer == self.timer:
            self._perform(self.core.tick(self.cluster.now))

    def _fetch(self, number: int) -> None:
        if number != self.fetch_number or self.source is None:
            return
        request = _Fetch(self.last, whole=False)
        incarnation, source = self.incarnation, self.source

        def done(reply: _Fetched | None) -> None:
            if self.running and self.incarnation == incarnation and number == self.fetch_number:
                if reply is None:
                    self.deliver(SourceFailed(peer=source, seconds=0.5, reason="no answer"))
                else:
                    self._fetched(reply, number, source)

        self.cluster.call(self.host, source, request, FETCH_TIMEOUT, done)

    def _fetched(self, reply: _Fetched, number: int, source: str) -> None:
        if not self.log and reply.entries:
            verdict = Verdict.FETCH  # a model of initial sync: the whole log
            new = reply.entries
        else:
            first = reply.entries[0].optime if reply.entries else None
            verdict = judge(self.last, first, source_oldest=reply.oldest, source_last=reply.last)
            new = reply.entries[1:]
        if verdict is Verdict.FETCH:
            self.log.extend(new)
            if new:
                self._progress()
            self._fetch(number)
        elif verdict is Verdict.ROLL_BACK and self.core.state.primary_state is not None:
            self.deliver(CatchUpEnded(term=self.core.state.term))
        elif verdict is Verdict.ROLL_BACK and self.core.state.candidacy.election is None:
            self.deliver(FollowerState(state=MemberState.ROLLBACK))
            self._ask_whole_log(number, source)
        else:
            self.deliver(SourceFailed(peer=source, seconds=0.5, reason=verdict.value))

    def _ask_whole_log(self, number: int, source: str) -> None:
        incarnation = self.incarnation

        def done(reply: _Fetched | None) -> None:
            if not self.running or self.incarnation != incarnation:
                return
            if reply is not None and number == self.fetch_number:
                self._roll_back([entry.optime for entry in reply.entries])
            self.deliver(FollowerState(state=MemberState.SECONDARY))
            if number == self.fetch_number:
                if reply is None:
                    self.deliver(SourceFailed(peer=source, seconds=0.5, reason="no answer during rollback"))
                else:
                    self._fetch(number)

        self.cluster.call(self.host, source, _Fetch(NULL_OPTIME, whole=True), FETCH_TIMEOUT, done)

    def _roll_back(self, theirs: list[OpTime]) -> None:
        own: Iterator[OpTime] = (entry.optime for entry in reversed(self.log))
        common = CommonPoint(own).feed(reversed(theirs))
        assert common is not None
        keep = 0 if common == NULL_OPTIME else next(i for i, e in enumerate(self.log) if e.optime == common) + 1
        undone = self.log[keep:]
        if not undone:
            return
        self.cluster.checker.rolled_back(self, undone)
        del self.log[keep:]
        self.rollbacks += 1
        self.flush_now()

    def _serve_fetch(self, request: _Fetch, answer: Callable[[Any], None], *, waited: bool = False) -> None:
        """A tailing cursor: with nothing new it waits a while for the log to grow."""
        if self.last == request.last and not waited:
            number = len(self.tails)
            self.tails.append(lambda: self._serve_fetch(request, answer, waited=True))
            self.later(AWAIT_DATA, self._wake_tails if number == 0 else lambda: None)
            return
        first = 0 if request.whole else bisect_left(self.log, request.last.timestamp, key=lambda e: e.optime.timestamp)
        entries = self.log[first:] if request.whole else self.log[first : first + FETCH_LIMIT]
        answer(_Fetched(entries, self.log[0].optime if self.log else NULL_OPTIME, self.last))

    def _wake_tails(self) -> None:
        tails, self.tails = self.tails, []
        for tail in tails:
            tail()


class _Fetch(NamedTuple):
    last: OpTime
    whole: bool


class _Fetched(NamedTuple):
    entries: list[Entry]
    oldest: OpTime
    last: OpTime


def _with_token(request: Any, token: int) -> Any:
    return replace(request, token=token)
