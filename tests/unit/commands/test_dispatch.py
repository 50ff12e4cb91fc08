"""From request to reply: one reply each, with everything that a reply carries."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.commands.access.logins import log_in
from docstore.commands.declaration import Parameter, Role, Type
from docstore.commands.dispatch import Pending, StreamedReply
from docstore.errors import Code, CommandError
from docstore.optime import pack_timestamp, unpack_timestamp
from docstore.options.values import ClusterAuthMode
from docstore.security.cluster_keys import ClusterKeys
from docstore.security.names import UserName
from docstore.security.privileges import CLUSTER, Privileges
from docstore.security.time_proofs import TimeProofs
from docstore.security.users import User
from docstore.wire.message import EXHAUST_ALLOWED, MORE_TO_COME
from tests.harness.dispatching import FakeHost, ManualClock, ask, command, dispatcher_of, peer, request

LSID = {"id": Binary(b"s" * 16, 4)}
RETRY = {"lsid": LSID, "txnNumber": Int64(1)}
UNSIGNED = {"hash": bytes(20), "keyId": Int64(0)}


def told(time: Timestamp) -> dict[str, Any]:
    return {"clusterTime": time, "signature": UNSIGNED}


def proven(proofs: TimeProofs, time: Timestamp) -> dict[str, Any]:
    signed = proofs.sign(pack_timestamp(time))
    return {"clusterTime": time, "signature": {"hash": signed.hash, "keyId": Int64(signed.key_id)}}


def refusing(code: int, **extra: Any) -> Any:
    def run(context: Any, arguments: Any) -> Any:
        raise CommandError(code, "no", extra=extra)

    return run


def test_ok_is_the_last_field_of_a_reply() -> None:
    dispatcher = dispatcher_of(command("a", lambda context, arguments: {"n": 1}))
    assert list(ask(dispatcher, {"a": 1}).items()) == [("n", 1), ("ok", 1.0)]


def test_encoded_and_plain_results_give_the_same_reply() -> None:
    dispatcher = dispatcher_of(
        command("plain", lambda context, arguments: {"n": 1}),
        command("encoded", lambda context, arguments: bson.encode({"n": 1})),
    )
    assert ask(dispatcher, {"plain": 1}) == ask(dispatcher, {"encoded": 1})


def test_replies_and_refusals_carry_the_hosts_gossip() -> None:
    host = FakeHost()
    dispatcher = dispatcher_of(command("a"), command("b", refusing(2)), host=host)
    for time in (Timestamp(1, 1), Timestamp(2, 1)):
        host.times = {"operationTime": time}
        assert ask(dispatcher, {"a": 1})["operationTime"] == time
        assert ask(dispatcher, {"b": 1})["operationTime"] == time


def test_a_refusal_becomes_an_error_reply_with_its_extra_fields() -> None:
    dispatcher = dispatcher_of(command("a", refusing(11000, keyValue={"x": 1})))
    assert ask(dispatcher, {"a": 1}) == {
        "ok": 0.0, "errmsg": "no", "code": 11000, "codeName": "DuplicateKey", "keyValue": {"x": 1},
    }  # fmt: skip


def test_an_unexpected_exception_becomes_internal_error_and_says_where() -> None:
    def run(context: Any, arguments: Any) -> Any:
        raise ZeroDivisionError

    reply = ask(dispatcher_of(command("a", run)), {"a": 1})
    assert (reply["code"], reply["errmsg"]) == (1, "internal error in a: ZeroDivisionError")


def test_a_broken_invariant_is_not_a_reply() -> None:
    def run(context: Any, arguments: Any) -> Any:
        raise AssertionError("never")

    with pytest.raises(AssertionError):
        ask(dispatcher_of(command("a", run)), {"a": 1})


def test_a_failure_with_a_meaning_for_clients_is_translated() -> None:
    def run(context: Any, arguments: Any) -> Any:
        raise OSError

    dispatcher = dispatcher_of(command("a", run), translate=lambda error: CommandError(Code.HostUnreachable, "gone"))
    assert ask(dispatcher, {"a": 1})["code"] == 6


@pytest.mark.parametrize(("code", "labelled"), [(10107, True), (6, True), (2, False)])
def test_retryable_failures_of_retryable_writes_are_labelled(code: int, labelled: bool) -> None:
    dispatcher = dispatcher_of(command("a", refusing(code), retryable=True))
    assert ("errorLabels" in ask(dispatcher, {"a": 1, **RETRY})) is labelled
    assert "errorLabels" not in ask(dispatcher, {"a": 1})


def test_a_retryable_write_concern_error_is_labelled_beside_a_good_reply() -> None:
    def run(context: Any, arguments: Any) -> Any:
        return {"n": 1, "writeConcernError": {"code": 11602, "errmsg": "stepped down"}}

    reply = ask(dispatcher_of(command("a", run, retryable=True)), {"a": 1, **RETRY})
    assert (reply["ok"], reply["errorLabels"]) == (1.0, ["RetryableWriteError"])
    assert "topologyVersion" in reply


def test_errors_of_a_state_change_carry_the_topology_version() -> None:
    host = FakeHost()
    host.write_error = CommandError(Code.NotWritablePrimary, "not primary")
    dispatcher = dispatcher_of(command("w", role=Role.PRIMARY), host=host)
    assert ask(dispatcher, {"w": 1})["topologyVersion"] == host.state_version()


def test_a_write_needs_a_primary_except_in_the_local_database() -> None:
    host = FakeHost()
    host.write_error = CommandError(Code.NotWritablePrimary, "not primary")
    dispatcher = dispatcher_of(command("w", role=Role.PRIMARY), host=host)
    assert ask(dispatcher, {"w": 1})["code"] == 10107
    assert ask(dispatcher, {"w": 1}, db="local")["ok"] == 1.0


def test_a_read_on_a_secondary_needs_a_read_preference_that_allows_it() -> None:
    host = FakeHost()
    host.read_error = CommandError(Code.NotPrimaryNoSecondaryOk, "not primary")
    dispatcher = dispatcher_of(command("r", role=Role.SECONDARY_OK), host=host)
    assert ask(dispatcher, {"r": 1})["code"] == 13435
    assert ask(dispatcher, {"r": 1, "$readPreference": {"mode": "nearest"}})["ok"] == 1.0


def test_a_cluster_time_is_observed_once_per_change() -> None:
    host = FakeHost()
    dispatcher = dispatcher_of(command("a"), host=host)
    for seconds in (5, 5, 6):
        ask(dispatcher, {"a": 1, "$clusterTime": told(Timestamp(seconds, 1))})
    assert [time >> 32 for time in host.observed] == [5, 6]


NOW = Timestamp(1000, 1)
BROKEN_TIMES = [
    ({"clusterTime": 5, "signature": UNSIGNED}, Code.TypeMismatch),
    ({"clusterTime": NOW}, Code.NoSuchKey),
    ({"clusterTime": NOW, "signature": "a"}, Code.TypeMismatch),
    ({"clusterTime": NOW, "signature": {}}, Code.NoSuchKey),
    ({"clusterTime": NOW, "signature": {"hash": bytes(20)}}, Code.NoSuchKey),
    ({"clusterTime": NOW, "signature": {"hash": "a", "keyId": Int64(1)}}, Code.TypeMismatch),
    ({"clusterTime": NOW, "signature": {"hash": bytes(20), "keyId": "1"}}, Code.TypeMismatch),
    ({"clusterTime": NOW, "signature": {"hash": bytes(3), "keyId": Int64(1)}}, Code.UnsupportedFormat),
    ({"clusterTime": Timestamp(0xFFFFFFFF, 1), "signature": UNSIGNED}, Code.ClusterTimeFailsRateLimiter),
]


@pytest.mark.parametrize(("broken", "code"), BROKEN_TIMES)
def test_what_is_no_cluster_time_or_one_of_the_far_future_is_refused(broken: dict[str, Any], code: Code) -> None:
    host = FakeHost()
    assert ask(dispatcher_of(command("a"), host=host), {"a": 1, "$clusterTime": broken})["code"] == code
    assert not host.observed


def test_a_time_that_nobody_has_proven_does_not_count() -> None:
    host = FakeHost()
    dispatcher = dispatcher_of(command("a"), host=host)
    access = dispatcher.services.access
    access.enabled = True
    key, other = (TimeProofs([secret]) for secret in (b"key", b"other"))

    def refusal(told: dict[str, Any]) -> int:
        return int(ask(dispatcher, {"a": 1, "$clusterTime": told}).get("code", 0))

    # Where only certificates tell who belongs to the cluster nothing proves a time.
    access.keys = ClusterKeys([], bytes(28), mode=ClusterAuthMode.X509)
    assert refusal(proven(key, NOW)) == 0
    access.keys.proofs = key
    # By a key that other processes have got already.
    assert refusal(proven(other, NOW)) == 0
    assert refusal({**proven(key, NOW), "clusterTime": Timestamp(NOW.time + 1, 1)}) == Code.TimeProofMismatch
    # From before there were keys, by a client that has not logged in.
    assert refusal(told(NOW)) == 0
    assert not host.observed
    assert refusal(proven(key, NOW)) == 0
    assert host.observed == [pack_timestamp(NOW)]


def test_who_has_logged_in_proves_a_time_or_may_advance_it() -> None:
    host = FakeHost()
    dispatcher = dispatcher_of(command("a"), host=host)
    access = dispatcher.services.access
    access.enabled = True
    access.keys = ClusterKeys(["a" * 12], bytes(28), iterations=1)

    def refusal(*actions: str) -> int:
        client = peer()
        user = User(
            name=UserName("ann", "d"), credentials={}, roles=(), privileges=Privileges({CLUSTER: frozenset(actions)})
        )
        log_in(client, user, access.directory.generation)
        reply = dispatcher.handle(request({"a": 1, "$clusterTime": told(NOW)}), client)
        assert isinstance(reply, bytes)
        return int(bson.decode(reply).get("code", 0))

    assert refusal() == Code.KeyNotFound
    assert not host.observed
    assert refusal("advanceClusterTime") == 0
    assert host.observed == [pack_timestamp(NOW)]


def test_a_cluster_time_that_the_host_told_itself_is_not_observed() -> None:
    host = FakeHost()
    host.times = {"$clusterTime": {"clusterTime": Timestamp(7, 3)}}
    dispatcher = dispatcher_of(command("ping"), host=host)
    for time in (Timestamp(6, 9), Timestamp(7, 3), Timestamp(7, 2), Timestamp(7, 4), Timestamp(5, 1)):
        ask(dispatcher, {"ping": 1, "$clusterTime": told(time)})
    assert [unpack_timestamp(each) for each in host.observed] == [Timestamp(6, 9), Timestamp(7, 4)]


def test_a_request_with_more_to_come_gets_no_reply_even_when_it_fails() -> None:
    ran = []
    dispatcher = dispatcher_of(command("a", lambda context, arguments: ran.append(1) or {}), command("b", refusing(2)))
    for name in ("a", "b", "nosuch"):
        assert dispatcher.handle(request({name: 1}, flags=MORE_TO_COME), peer()) is None
    assert ran == [1]


def test_help_is_answered_instead_of_running_the_command() -> None:
    dispatcher = dispatcher_of(command("a", refusing(2), help="does a", parameters=(Parameter("x", Type.ANY, True),)))
    assert ask(dispatcher, {"a": 1, "help": True})["help"] == "help for: a does a"


def test_the_session_of_a_command_is_in_use() -> None:
    dispatcher = dispatcher_of(command("a"))
    ask(dispatcher, {"a": 1, "lsid": LSID})
    assert [lsid[:16] for lsid in dispatcher.services.sessions] == [b"s" * 16]


class Waiting:
    """A command that waits for the test's word."""

    def __init__(self) -> None:
        self.word: asyncio.Future[dict[str, Any]] | None = None

    async def run(self, context: Any, arguments: Any) -> dict[str, Any]:
        self.word = asyncio.get_running_loop().create_future()
        return await self.word


def test_a_command_that_waits_is_an_operation_until_it_is_answered() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        dispatcher = dispatcher_of(command("a", waiting.run))
        pending = dispatcher.handle(request({"a": 1}), peer())
        assert isinstance(pending, Pending)
        task = asyncio.ensure_future(pending.finish())
        await asyncio.sleep(0)
        assert [operation.context.command.name for operation in dispatcher.services.operations] == ["a"]
        waiting.word.set_result({"n": 1})
        reply = await task
        assert isinstance(reply, bytes)
        assert bson.decode(reply) == {"n": 1, "ok": 1.0}
        assert len(dispatcher.services.operations) == 0

    asyncio.run(scenario())


def test_a_command_may_have_its_time_end_later_than_the_client_said() -> None:
    """A write that was given up in time has something to tell then."""

    async def scenario() -> None:
        waiting, clock = Waiting(), ManualClock(50.0)

        def run(context: Any, arguments: Any) -> Any:
            context.progress.deadline = context.deadline + 2
            return waiting.run(context, arguments)

        pending = dispatcher_of(command("a", run), clock=clock).handle(request({"a": 1, "maxTimeMS": 200}), peer())
        assert isinstance(pending, Pending)
        assert (pending.context.deadline, pending.deadline) == (50.2, 52.2)
        task = asyncio.ensure_future(pending.finish())
        await asyncio.sleep(0)
        waiting.word.set_result({})
        await task

    asyncio.run(scenario())


@pytest.mark.parametrize("own_deadline", [False, True])
def test_only_a_limit_on_the_work_is_the_transports_deadline(own_deadline: bool) -> None:
    async def scenario() -> None:
        waiting, clock = Waiting(), ManualClock(50.0)
        dispatcher = dispatcher_of(command("a", waiting.run, own_deadline=own_deadline), clock=clock)
        pending = dispatcher.handle(request({"a": 1, "maxTimeMS": 200}), peer())
        assert isinstance(pending, Pending)
        assert pending.context.deadline == 50.2
        assert pending.deadline == (None if own_deadline else 50.2)
        task = asyncio.ensure_future(pending.finish())
        await asyncio.sleep(0)
        waiting.word.set_result({})
        await task

    asyncio.run(scenario())


def test_a_killed_operation_is_answered_with_the_error_it_was_killed_with() -> None:
    async def scenario() -> None:
        dispatcher = dispatcher_of(command("a", Waiting().run))
        pending = dispatcher.handle(request({"a": 1}), peer())
        assert isinstance(pending, Pending)
        task = asyncio.ensure_future(pending.finish())
        pending.operation.on_kill = task.cancel
        await asyncio.sleep(0)
        assert dispatcher.services.operations.kill(pending.operation.id)
        with pytest.raises(asyncio.CancelledError):
            await task
        reply = pending.interrupted()
        assert isinstance(reply, bytes)
        assert bson.decode(reply)["code"] == 11601
        assert len(dispatcher.services.operations) == 0

    asyncio.run(scenario())


def test_an_exhaust_stream_goes_on_for_as_long_as_the_command_says() -> None:
    def following(context: Any, reply: bytes) -> bytes | None:
        left = bson.decode(context.raw)["count"] - 1
        return bson.encode({"count": left, "$db": "test"}) if left else None

    dispatcher = dispatcher_of(
        command("count", lambda context, arguments: {"at": arguments.value}, value=Type.INT, following=following)
    )
    outcome = dispatcher.handle(request({"count": 3}, flags=EXHAUST_ALLOWED), peer())
    seen = []
    while isinstance(outcome, StreamedReply):
        seen.append(bson.decode(outcome.body)["at"])
        outcome = dispatcher.handle(outcome.following, peer())
    assert isinstance(outcome, bytes)
    assert [*seen, bson.decode(outcome)["at"]] == [3, 2, 1]
    assert isinstance(dispatcher.handle(request({"count": 3}), peer()), bytes)
