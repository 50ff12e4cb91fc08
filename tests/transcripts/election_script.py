"""Runs the election transcripts: members in one process, a network that delivers at once, a clock that the script
moves.

    # The claim, one sentence.
    members a b c:priority=2 d:arbiter      three data members and an arbiter; the first is made primary, unseen
    isolate c | heal c | cut a b            no messages to and from c; again; none from a to b
    stop a | start a                        the process dies, keeping what it persisted; comes back
    write a                                 an entry in a's log, fetched at once by all that can reach it
    timeout c                               c's election timer runs out, and nobody else's
    pass 0.5                                time goes by, for all
    heartbeats                              everyone asks everyone
    stepdown a [force] | freeze b 5 | stepup b
    show                                    a line for each running member
    ---
    the trace: who asks whom for votes, who answers what, who takes and leaves office
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from docstore.errors import CommandError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import MemberConfig, ReplicaSetConfig, Settings
from docstore.replication.core import Core
from docstore.replication.effects import BecomePrimary, Drain, Effect, Persist, Reply, Send, SteppedDown
from docstore.replication.messages import (
    NO_VOTE,
    Answered,
    BecamePrimary,
    Drained,
    Event,
    FollowerState,
    Freeze,
    LastVote,
    Progress,
    StepDown,
    StepUpRequest,
    VoteReply,
    VoteRequest,
)
from docstore.replication.states import MemberState, Role

SETTINGS = Settings(election_timeout_millis=1000, heartbeat_interval_millis=200, catch_up_takeover_delay_millis=3000)


def run_script(script: str) -> list[str]:
    """The trace of a script's commands."""
    stage = Stage()
    for line in script.splitlines():
        words = line.split("#")[0].split()
        if words:
            stage.do(words[0], words[1:])
    return stage.trace


@dataclass
class Player:
    """One member: what is on its disk, and the process if it runs."""

    name: str
    vote: LastVote = NO_VOTE
    config: ReplicaSetConfig | None = None
    log: list[OpTime] = field(default_factory=list)
    core: Core | None = None

    @property
    def host(self) -> str:
        return f"{self.name}:1"

    @property
    def last(self) -> OpTime:
        return self.log[-1] if self.log else NULL_OPTIME


class Stage:
    """The members, the links that are cut, and the trace."""

    def __init__(self) -> None:
        self.now = 100.0
        self.trace: list[str] = []
        self._quiet = True
        self._players: dict[str, Player] = {}
        self._cut: set[tuple[str, str]] = set()
        self._mail: deque[Callable[[], None]] = deque()
        self._answers: dict[int, Callable[[Any], None]] = {}
        self._token = 0

    def do(self, command: str, words: list[str]) -> None:
        action = getattr(self, f"_do_{command}")
        action(*words)
        self._deliver_mail()

    def _do_members(self, *words: str) -> None:
        rows = [self._row(number, word) for number, word in enumerate(words)]
        config = ReplicaSetConfig(set_name="set", version=1, term=0, members=tuple(rows), settings=SETTINGS)
        for word in words:
            name = word.split(":")[0]
            self._players[name] = Player(name, config=config, log=[OpTime(0, 1)])
        for member in config.members:
            if member.arbiter_only:
                self._players[member.host[:-2]].log = []
        for player in self._players.values():
            self._do_start(player.name)
        self._do_heartbeats()
        self._do_timeout(words[0].split(":")[0])
        self._do_heartbeats()
        self._do_sync()
        self._do_heartbeats()
        self._quiet = False

    def _row(self, number: int, word: str) -> MemberConfig:
        name, *attributes = word.split(":")
        fields: dict[str, Any] = {}
        for attribute in attributes:
            key, _, value = attribute.partition("=")
            if key == "arbiter":
                fields.update(arbiter_only=True, priority=0.0)
            else:
                fields[key] = int(value)
        return MemberConfig(id=number, host=f"{name}:1", **fields)

    def _do_start(self, name: str) -> None:
        player = self._players[name]
        player.core = Core(
            "set",
            rng=lambda: 0.5,
            own_hosts=[player.host],
            config=player.config,
            vote=player.vote,
            last_op=player.last,
            now=self.now,
        )
        self._tell(player, FollowerState(state=MemberState.SECONDARY))

    def _do_stop(self, name: str) -> None:
        self._players[name].core = None

    def _do_isolate(self, name: str) -> None:
        for other in self._players:
            self._cut |= {(name, other), (other, name)}

    def _do_heal(self, name: str) -> None:
        self._cut = {link for link in self._cut if name not in link}

    def _do_cut(self, sender: str, receiver: str) -> None:
        self._cut.add((sender, receiver))

    def _do_write(self, name: str) -> None:
        player = self._players[name]
        assert player.core is not None
        assert player.core.state.writable, f"{name} takes no writes"
        self._append(player, player.core.state.term)
        self._do_sync()

    def _do_sync(self) -> None:
        """Everyone fetches what its source has; who has more than its source lets it be."""
        for _ in self._players:
            for player in self._players.values():
                self._fetch(player)
                self._deliver_mail()

    def _do_timeout(self, name: str) -> None:
        core = self._players[name].core
        assert core is not None
        assert core.state.candidacy.election_at < float("inf"), f"{name} has no election timer"
        core.state.candidacy.election_at = self.now
        self._perform(self._players[name], core.tick(self.now))

    def _do_pass(self, seconds: str) -> None:
        end = self.now + float(seconds)
        while self.now < end - 1e-9:
            self.now = min(end, self.now + 0.05)
            for player in self._players.values():
                if player.core is not None:
                    self._perform(player, player.core.tick(self.now))
                    self._deliver_mail()

    def _do_heartbeats(self) -> None:
        for _ in range(2):
            for player in self._players.values():
                if player.core is not None:
                    for peer in player.core.state.peers.values():
                        peer.heartbeat_at = self.now
                    self._perform(player, player.core.tick(self.now))
                    self._deliver_mail()

    def _do_stepdown(self, name: str, force: str = "") -> None:
        command = StepDown(seconds=10, catch_up_seconds=0 if force else 1, force=bool(force), token=self._next_token())
        self._note_answer(name, "stepdown", command.token)
        self._tell(self._players[name], command)

    def _do_freeze(self, name: str, seconds: str) -> None:
        command = Freeze(seconds=float(seconds), token=self._next_token())
        self._note_answer(name, "freeze", command.token)
        self._tell(self._players[name], command)

    def _do_stepup(self, name: str) -> None:
        command = StepUpRequest(token=self._next_token())
        self._note_answer(name, "stepup", command.token)
        self._tell(self._players[name], command)

    def _do_show(self) -> None:
        for player in self._players.values():
            if player.core is not None:
                state = player.core.state
                end = "" if not player.log else f" last={_show(player.last)}"
                self._note(f"{player.name} {state.member_state.name} term={state.term}{end}")

    def _append(self, player: Player, term: int) -> None:
        player.log.append(OpTime(term, max(player.last.timestamp, 0) + 1))
        self._tell(player, Progress(applied=player.last, durable=player.last))

    def _fetch(self, player: Player) -> None:
        state = None if player.core is None else player.core.state
        if state is None or state.sync_source.host is None:
            return
        source = self._players[state.sync_source.host[:-2]]
        reachable = not {(player.name, source.name), (source.name, player.name)} & self._cut
        if source.core is not None and reachable and player.last in source.log and player.last != source.last:
            player.log = list(source.log)
            self._tell(player, Progress(applied=player.last, durable=player.last))

    def _tell(self, player: Player, event: Event) -> None:
        if player.core is not None:
            self._perform(player, player.core.receive(event, self.now))

    def _perform(self, player: Player, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist():
                    player.vote = effect.vote or player.vote
                    player.config = effect.config or player.config
                case Send():
                    self._send(player, effect)
                case Reply():
                    self._answers.pop(effect.token, lambda _result: None)(effect.result)
                case Drain():
                    self._mail.append(lambda effect=effect: self._tell(player, Drained(term=effect.term)))
                case BecomePrimary():
                    self._mail.append(lambda effect=effect: self._become_primary(player, effect.term))
                case SteppedDown():
                    self._note(f"{player.name} leaves office: {effect.reason}")
        if player.core is not None:
            player.core.check()

    def _become_primary(self, player: Player, term: int) -> None:
        if player.core is not None and player.core.state.role is Role.LEADER and player.core.state.term == term:
            self._append(player, term)
            self._note(f"{player.name} is primary of term {term}")
            self._tell(player, BecamePrimary(term=term))

    def _send(self, player: Player, effect: Send) -> None:
        target = self._players[effect.to[:-2]]
        request, term = effect.request, player.core.state.term if player.core else 0
        if isinstance(request, VoteRequest):
            kind = "dry run" if request.dry_run else "vote"
            self._note(
                f"{player.name}@{term} -> {target.name} {kind} term={request.term} last={_show(request.last_op)}"
            )

        def done(reply: Any) -> None:
            if isinstance(reply, VoteReply):
                answer = "yes" if reply.granted else f"no ({reply.reason})"
                self._note(f"{target.name}@{reply.term} -> {player.name} {answer}")
            good = None if isinstance(reply, CommandError) else reply
            self._tell(player, Answered(peer=effect.to, request=request, reply=good))

        def arrive() -> None:
            if target.core is None or (player.name, target.name) in self._cut:
                done(None)
                return
            token = self._next_token()
            self._answers[token] = (
                (lambda _reply: done(None))
                if (target.name, player.name) in self._cut
                else lambda r: self._post(done, r)
            )
            self._tell(target, replace(request, token=token))

        self._mail.append(arrive)

    def _post(self, done: Callable[[Any], None], reply: Any) -> None:
        self._mail.append(lambda: done(reply))

    def _deliver_mail(self) -> None:
        while self._mail:
            self._mail.popleft()()

    def _next_token(self) -> int:
        self._token += 1
        return self._token

    def _note_answer(self, name: str, what: str, token: int) -> None:
        def note(result: Any) -> None:
            said = f"no ({result.message})" if isinstance(result, CommandError) else "ok"
            self._note(f"{name} {what}: {said}")

        self._answers[token] = note

    def _note(self, line: str) -> None:
        if not self._quiet:
            self.trace.append(line)


def _show(optime: OpTime) -> str:
    return f"{optime.timestamp}@{optime.term}"
