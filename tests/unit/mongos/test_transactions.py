"""How a router ends transactions: whom it asks, in which order, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest

from docstore.commands.concerns import LOCAL
from docstore.commands.context import Context
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from mongos.router import Router
from mongos.routing.requests import ShardReply
from mongos.routing.shards import Shard
from mongos.transactions import registry
from mongos.transactions.registry import RouterTransactions
from mongos.transactions.shards import TransactionShard
from mongos.transactions.transaction import RouterTransaction, State

NOTHING: dict[str, Any] = {}
GONE = CommandError(Code.NoSuchTransaction, "there is no such transaction")
LOST = CommandError(Code.HostUnreachable, "no answer")
TOO_SLOW = {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}}


class ScriptedShard:
    """Answers what it is told to, then with success; `log` has the commands that all shards were asked."""

    def __init__(self, name: str, log: list[tuple[str, str]]) -> None:
        self.name = name
        self.host = self.client = name
        self.answers: list[dict[str, Any] | CommandError] = []
        self._log = log

    def now(self) -> float:
        return 0.0

    async def command(self, _db: str, body: Any, **_: Any) -> ShardReply:
        command = bson.decode(body) if isinstance(body, bytes) else body
        self._log.append((self.name, next(iter(command))))
        answer = self.answers.pop(0) if self.answers else NOTHING
        if isinstance(answer, CommandError):
            raise answer
        return ShardReply(self.name, self.name, bson.encode({**answer, "ok": 1}))


class Scene:
    """A router with one transaction, which has read on shard r and written on the shards of `writers`."""

    def __init__(self, *writers: str) -> None:
        self.log: list[tuple[str, str]] = []
        self.shards = {name: ScriptedShard(name, self.log) for name in ("r", "w", "x")}
        router = SimpleNamespace(cluster_time=lambda: 1, shards=SimpleNamespace(get=self._get))
        self.transactions = RouterTransactions(cast(Router, router))
        self.transaction = self.begin(b"l" * 48)
        for name in ("r", *writers):
            participant = self.transaction.participant(cast(Shard, self.shards[name]))
            participant.begun = True
            if name in writers:
                self.transaction.wrote(participant)

    async def _get(self, name: str) -> ScriptedShard:
        return self.shards[name]

    def context(self, lsid: bytes = b"l" * 48) -> Context:
        session = Session(lsid, txn_number=7, in_transaction=True, starts=True)
        context = SimpleNamespace(session=session, body={}, max_time_ms=None, deadline=None, read_concern=LOCAL)
        context.services = SimpleNamespace(clock=lambda: 0.0)
        return cast(Context, context)

    def begin(self, lsid: bytes) -> RouterTransaction:
        context = self.context(lsid)
        assert context.session is not None
        return asyncio.run(self.transactions._begin(context, context.session))

    def commit(self, token: dict[str, Any] | None = None) -> bytes:
        raw = None if token is None else bson.encode(token)
        return asyncio.run(self.transactions.commit(self.context(), raw))

    def refused(self, token: dict[str, Any] | None = None) -> int:
        with pytest.raises(CommandError) as refused:
            self.commit(token)
        return refused.value.code


@pytest.mark.parametrize(("writers", "end"), [("w", "commitTransaction"), ("wx", "coordinateCommitTransaction")])
def test_a_reader_that_restarted_does_not_answer_for_the_writer(writers: str, end: str) -> None:
    scene = Scene(*writers)
    scene.shards["w"].answers = [LOST]
    assert scene.refused() == Code.HostUnreachable
    assert scene.log == [("r", "commitTransaction"), ("w", end)]
    scene.shards["r"].answers = [GONE]
    scene.commit()
    scene.commit()
    assert scene.log[2:] == [("w", end), ("w", end)]


def test_the_recovery_shard_may_say_that_it_is_aborted() -> None:
    scene = Scene("w")
    scene.shards["w"].answers = [LOST, GONE]
    assert [scene.refused(), scene.refused()] == [Code.HostUnreachable, Code.NoSuchTransaction]
    assert scene.transaction.state is State.ABORTED


def test_a_reader_that_is_gone_before_the_writer_was_asked_aborts_the_transaction() -> None:
    scene = Scene("w")
    scene.shards["r"].answers = [LOST, GONE]
    assert [scene.refused(), scene.refused()] == [Code.HostUnreachable, Code.NoSuchTransaction]
    assert [each for each in scene.log if each[0] == "w"] in ([], [("w", "abortTransaction")])


def test_what_was_read_is_durable_before_the_writer_is_asked() -> None:
    scene = Scene("w")
    scene.shards["r"].answers = [TOO_SLOW]
    assert scene.refused() == Code.WriteConcernFailed
    assert scene.log == [("r", "commitTransaction")]
    scene.commit()
    assert scene.log[1:] == [("r", "commitTransaction"), ("w", "commitTransaction")]


def test_a_commit_that_cannot_have_happened_may_be_aborted() -> None:
    scene = Scene("w")
    scene.shards["r"].answers = [LOST]
    assert scene.refused() == Code.HostUnreachable
    asyncio.run(scene.transactions.abort(scene.context()))
    assert scene.refused() == Code.NoSuchTransaction


def test_a_commit_that_may_have_happened_is_not_aborted() -> None:
    scene = Scene("w")
    scene.shards["w"].answers = [LOST]
    assert scene.refused() == Code.HostUnreachable
    with pytest.raises(CommandError) as refused:
        asyncio.run(scene.transactions.abort(scene.context()))
    assert refused.value.code == Code.TransactionCommitted
    assert "abortTransaction" not in {command for _, command in scene.log}


def test_a_router_that_does_not_know_the_transaction_asks_the_recovery_shard_or_says_nothing() -> None:
    scene = Scene("w")
    scene.transactions = RouterTransactions(scene.transactions._router)
    assert scene.refused() == 50940, "not NoSuchTransaction, after which drivers begin anew"
    assert scene.refused({}) == Code.NoSuchTransaction, "nothing was written"
    scene.commit({"recoveryShardId": "w"})
    assert scene.log == [("w", "coordinateCommitTransaction")]


def test_other_sessions_do_not_end_an_open_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_ENDED_TRANSACTIONS", 3)
    scene = Scene("w")
    others = [scene.begin(bytes([number]) * 48) for number in range(10)]
    assert {each.state for each in others} == {State.OPEN}
    scene.commit()
    assert scene.log[-1] == ("w", "commitTransaction")

    async def end() -> None:
        scene.transactions.end_sessions({each.lsid for each in others})

    asyncio.run(end())
    assert {each.state for each in others} == {State.ABORTED}
    assert (len(scene.transactions._unended), len(scene.transactions._ended)) == (0, 3)


HELD = CommandError(Code.LockTimeout, "Unable to acquire lock")


@pytest.mark.parametrize("takes_part", [False, True])
def test_only_the_first_part_of_a_transaction_waits_for_who_holds_a_collection(takes_part: bool) -> None:
    scene = Scene()
    scene.transaction.participants["r"].begun = takes_part
    shard = scene.shards["w"]
    shard.answers = [HELD, HELD]
    asked = TransactionShard(scene.transaction, cast(Shard, shard)).command("test", {"find": "c"})
    if takes_part:
        with pytest.raises(CommandError) as refused:
            asyncio.run(asked)
        assert refused.value.code == Code.LockTimeout
    else:
        assert asyncio.run(asked).shard == "w"
    assert len(scene.log) == (1 if takes_part else 3)


def test_a_statement_that_is_routed_anew_after_a_part_was_lost_is_refused() -> None:
    scene = Scene("w")
    scene.shards["w"].answers = [CommandError(Code.StaleConfig, "moved")]
    lost, fresh = (TransactionShard(scene.transaction, cast(Shard, scene.shards[name])) for name in "wx")
    for shard in (lost, fresh, lost):
        with pytest.raises(CommandError) as refused:
            asyncio.run(shard.command("test", {"find": "c"}))
        assert refused.value.code == Code.SnapshotUnavailable
    assert scene.log == [("w", "find")], "nobody else is asked"
