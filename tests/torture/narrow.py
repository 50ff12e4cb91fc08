"""Random requests of users with few privileges, to a real server and to ours: a node and a router, told the same.

Each round is one user's. All servers begin it with the same documents, users and open cursors, and are sent many
requests at once; replies are compared in order. Judged by what is left, and by what was answered:

* ours lets nothing in that the real server refuses, and shows no documents that it does not show;
* nothing is an InternalError, no connection is closed;
* no step holds a loop for longer than `STEP_SECONDS`, and killOp ends whatever works for long.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import bson

from docstore.errors import Code
from docstore.security.scram import SHA_1
from tests.differential.narrow.judge import breaks, is_stricter, lets_in, shown
from tests.differential.narrow.requests import Request, Requests
from tests.differential.narrow.users import DATA, USERS
from tests.harness.raw_client import Unanswered
from tests.torture.narrow_servers import PASSWORD, Server, servers

STEP_SECONDS = 0.5
KILL_SECONDS = 1.0
ROUND = 2000
"""Requests of a round."""
BATCH = 100
"""Requests that are sent at once."""
MAX_CURSORS = 64
MAX_SHOWN = 200
"""Characters of an error that are told."""
_LONGEST_SECONDS = 20.0
"""After this the fuzz waits no longer for the end of a request that is killed."""
_SPARE = ("c", "d", "v", "secret", "spare", "w", "t", "u", "k", "system.views", "system.js")
_LOOP = {"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": 0, "in": {"$add": ["$$value", 1]}}}
_LONG: tuple[dict[str, Any], ...] = (
    {"aggregate": "c", "pipeline": [
        {"$project": {"z": {"$map": {"input": {"$range": [0, 10**6]}, "in": {"$map": {
            "input": {"$range": [0, 1000]}, "in": _LOOP,
        }}}}}},
    ], "cursor": {}},
    {"find": "c", "filter": {"$where": "while (true) {}"}},
    {"count": "c", "query": {"$expr": {"$gt": [{"$size": {"$filter": {
        "input": {"$range": [0, 10**6]}, "cond": {"$gt": [_LOOP, 5000]},
    }}}, 1]}}},
    {"aggregate": "c", "pipeline": [
        {"$set": {"a": {"$range": [0, 100_000]}}}, {"$unwind": "$a"}, {"$set": {"a": {"$range": [0, 100_000]}}},
        {"$unwind": "$a"}, {"$group": {"_id": None, "n": {"$sum": "$a"}}},
    ], "cursor": {}},
)  # fmt: skip
"""Requests that work for minutes; killOp is to end them."""


@dataclass
class Findings:
    """`wrong`: a line for each thing that must not be; `crashes`: requests that the real server did not survive."""

    requests: int = 0
    refused: int = 0
    killed: int = 0
    seconds: float = 0.0
    longest_kill: float = 0.0
    longest_steps: dict[str, tuple[float, str]] = field(default_factory=dict)
    stricter: Counter[tuple[str, str]] = field(default_factory=Counter)
    otherwise: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """(server, command, code) of what ours refuses by other codes."""
    shown: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """(server, user, collections) of documents that the real server did not show: look whether both held the same."""
    examples: dict[tuple[Any, ...], str] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    """Rounds that ended early, for whatever reason."""

    def __str__(self) -> str:
        steps = ", ".join(f"{name} {taken:.3f} s ({command})" for name, (taken, command) in self.longest_steps.items())
        lines = [
            f"{self.requests} requests in {self.seconds:.0f} s, {self.refused} refusals by the real server",
            f"{self.killed} long requests ended by killOp, the slowest after {self.longest_kill:.2f} s",
            f"longest steps: {steps}",
        ]
        for title, counter in (
            ("ours alone refuses", self.stricter), ("ours refuses otherwise", self.otherwise),
            ("ours alone shows", self.shown),
        ):  # fmt: skip
            lines.append(f"{title}: {counter.total()}")
            lines += [f"  {count} {key}: {self.examples[key]}" for key, count in counter.most_common()]
        lines += [f"given up: {each}" for each in self.unanswered]
        lines += [f"the real server gave no answer: {crash}" for crash in self.crashes]
        return "\n".join([*lines, *(self.wrong or ["nothing wrong"])])


@dataclass(frozen=True, slots=True)
class _Told:
    """A request and its two replies."""

    server: str
    user: str
    request: Request
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]

    def __str__(self) -> str:
        request = self.request
        asked = f"{self.server} {self.user} {request.db} {request.command} {request.sequences or ''}"
        return f"{asked}\n    {errors_of(self.ours, self.theirs)}"


def errors_of(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return the codes and errors of two replies."""
    return " / ".join(f"{reply.get('code', 'ok')} {reply.get('errmsg', '')[:MAX_SHOWN]}" for reply in (ours, theirs))


def resetting() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the commands by which root has everything be as at first."""
    yield "admin", {"killAllSessions": []}
    for db in ("own", "other"):
        yield db, {"profile": 0}
        yield db, {"dropDatabase": 1}
        yield db, {"dropAllUsersFromDatabase": 1}
        yield db, {"dropAllRolesFromDatabase": 1}
    for name in _SPARE:
        yield "admin", {"drop": name}
    yield "admin", {"dropUser": "spare"}
    yield "admin", {"dropRole": "spare"}
    for name in ("self", "granter", "one"):
        privileges, roles = USERS[name]
        yield "admin", {"updateRole": f"of {name}", "privileges": privileges, "roles": []}
        more = {"pwd": PASSWORD, "mechanisms": [SHA_1], "customData": {}} if name == "self" else {}
        yield "admin", {"updateUser": name, "roles": [*roles, f"of {name}"], **more}
    yield from DATA
    for name in ("t", "u"):
        yield "own", {"insert": name, "documents": [{"at": bson.datetime.datetime(2026, 1, 1), "m": f"@own.{name}@"}]}


OPENING: tuple[tuple[str, dict[str, Any]], ...] = (
    *((db, {"find": name, "batchSize": 0}) for db in ("own", "other") for name in ("c", "secret", "d")),
    ("own", {"listCollections": 1, "cursor": {"batchSize": 0}}),
    ("own", {"listIndexes": "c", "cursor": {"batchSize": 0}}),
    ("own", {"aggregate": "secret", "pipeline": [{"$changeStream": {}}], "cursor": {}}),
    ("admin", {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {"batchSize": 0}}),
)
"""Cursors of root, which others try to go on with."""


def ask_for_few(directory: Path, count: int, seed: int) -> Findings:
    """Send so many requests to the node and the router. What DOCSTORE_REFERENCE starts is compared with."""
    with servers(directory / "servers") as (real, ours, revive):
        narrow = Narrow(real, ours, str(seed), revive)
        narrow.run(count)
    return narrow.findings


class Narrow:
    """The rounds of one run."""

    def __init__(self, real: Server, ours: Sequence[Server], seed: str, revive: Callable[[], None]) -> None:
        self._real = real
        self._ours = ours
        self._all = (real, *ours)
        self._seed = seed
        self._revive = revive
        self.findings = Findings()

    def run(self, count: int, progress: Callable[[Findings], None] = lambda _: None) -> None:
        """Run rounds until `count` requests are answered. `progress`: called after each."""
        began, users = time.monotonic(), list(USERS)
        for number in itertools.count(1):
            if self.findings.requests >= count:
                break
            user = users[number % len(users)]
            try:
                self._round(user, number)
            except Unanswered as error:
                self.findings.unanswered.append(f"round {number} of {user}: {error}")
                for server in self._all:
                    server.forget()
            self.findings.seconds = time.monotonic() - began
            progress(self.findings)

    def _round(self, user: str, number: int) -> None:
        self._reset()
        requests = Requests(Random(f"{self._seed} {number}"), transactions=number * 10_000)
        sent = 0
        while sent < ROUND:
            batch: list[Request] = []
            while len(batch) < BATCH:
                batch += requests.next()
            sent += len(batch)
            self._batch(user, number, batch)
        for server in self._ours:
            self._kill(server, user, number)
            self._look_at_steps(server, number)

    def _reset(self) -> None:
        commands = [*resetting(), *OPENING]
        for server in self._all:
            server.cursors = []
        for server in self._all:
            server.begin_all(commands)
        self._remember(
            [[_cursor_of(reply) for reply in server.replies(len(commands))[-len(OPENING) :]] for server in self._all]
        )

    def _remember(self, opened: Sequence[Sequence[int]]) -> None:
        """Keep the cursors that all servers have opened, each by its own id."""
        for ids in zip(*opened, strict=True):
            if all(ids):
                for server, cursor in zip(self._all, ids, strict=True):
                    server.cursors.append(cursor)
                    del server.cursors[: len(server.cursors) - MAX_CURSORS]

    def _batch(self, user: str, number: int, batch: Sequence[Request]) -> None:
        shared = [None if request.names_cursor else request.frame() for request in batch]
        began = []
        for server in self._all:
            frames = [common or request.frame(server.cursors) for common, request in zip(shared, batch, strict=True)]
            client = server.client(user)
            with contextlib.suppress(ConnectionError):
                client.begin(frames)
            began.append(client)
        try:
            theirs = began[0].finish(len(batch))
        except Unanswered as error:
            self.findings.crashes.append(f"round {number} of {user}: {error}: {batch[error.position]}")
            self._revive()
            raise
        decoded = [bson.decode(reply) for reply in theirs]
        opened = [[_cursor_of(reply) for reply in decoded]]
        for server, client in zip(self._ours, began[1:], strict=True):
            try:
                replies = client.finish(len(batch))
            except Unanswered as error:
                self.findings.wrong.append(f"round {number}: {server.name} {user}: {error}: {batch[error.position]}")
                raise
            opened.append(self._judge(server, user, batch, replies, theirs, decoded))
        self.findings.requests += len(batch)
        self._remember(opened)

    def _judge(
        self, server: Server, user: str, batch: Sequence[Request], replies: Sequence[bytes],
        theirs: Sequence[bytes], decoded: Sequence[dict[str, Any]],
    ) -> list[int]:  # fmt: skip
        """Compare the replies to a batch; the ids of the cursors that ours has opened."""
        findings, opened = self.findings, []
        for request, raw, their_raw, their in zip(batch, replies, theirs, decoded, strict=True):
            our = bson.decode(raw)
            opened.append(_cursor_of(our))
            name = request.command[0][0]
            findings.kinds[name] += 1
            refused = their.get("code") == Code.Unauthorized
            findings.refused += refused
            told = _Told(server.name, user, request, our, their)
            if lets_in(our, their) and not (request.names_cursor and _knows_no_cursor(our)):
                findings.wrong.append(f"let in: {told}")
            elif refused and our.get("code") != Code.Unauthorized:
                self._note(findings.otherwise, (server.name, name, our.get("code", 0)), told)
            if breaks(our):
                findings.wrong.append(f"code 1: {told}")
            if is_stricter(our, their):
                self._note(findings.stricter, (server.name, name), told)
            if more := shown(raw, their_raw):
                self._note(findings.shown, (server.name, user, *more), told)
        return opened

    def _note(self, counter: Counter[Any], key: tuple[Any, ...], told: _Told) -> None:
        counter[key] += 1
        if key not in self.findings.examples:
            self.findings.examples[key] = str(told)

    def _kill(self, server: Server, user: str, number: int) -> None:
        """Have the user begin something long, and root end it."""
        comment = f"long {number}"
        command = {**_LONG[number % len(_LONG)], "comment": comment}
        client = server.client(user)
        client.begin([(bson.encode({**command, "$db": "own"}), {})])
        began = killed = 0.0
        while not client.has_reply(KILL_SECONDS if killed else 0.01):
            now = time.monotonic()
            if killed:
                self.findings.wrong.append(f"works on {now - began:.2f} s after killOp: {server.name} {user} {command}")
            reply = server.client("root").run("admin", {"currentOp": 1, "command.comment": comment})
            for running in reply.get("inprog", ()):
                server.client("root").run("admin", {"killOp": 1, "op": running["opid"]})
                killed = killed or now
            if not reply["ok"] or now > (began := began or now) + _LONGEST_SECONDS:
                break
        ended = bson.decode(client.finish(1)[0])
        if killed:
            taken = time.monotonic() - killed
            self.findings.killed += 1
            self.findings.longest_kill = max(self.findings.longest_kill, taken)
            if taken > KILL_SECONDS or ended.get("code") != Code.Interrupted:
                self.findings.wrong.append(f"killed: {server.name} {user} {command}: {ended} after {taken:.2f} s")

    def _look_at_steps(self, server: Server, number: int) -> None:
        status = server.client("root").run("admin", {"serverStatus": 1})["scheduler"]["longestStep"]
        longest = (status["micros"] / 1e6, status["command"])
        before = self.findings.longest_steps.get(server.name, (0.0, ""))
        self.findings.longest_steps[server.name] = longest
        if longest[0] > max(before[0], STEP_SECONDS):
            self.findings.wrong.append(f"step of {longest[0]:.3f} s in round {number}: {server.name} {longest[1]}")


def _knows_no_cursor(reply: Mapping[str, Any]) -> bool:
    """Whether a reply says that no such cursor is open: servers end those of what others have done at other times."""
    return reply.get("code") == Code.CursorNotFound or reply.get("cursorsKilled") == []


def _cursor_of(reply: Mapping[str, Any]) -> int:
    """The id of the cursor that a reply has opened; 0 if none."""
    cursor = reply.get("cursor")
    return int(cursor.get("id", 0)) if isinstance(cursor, dict) else 0
