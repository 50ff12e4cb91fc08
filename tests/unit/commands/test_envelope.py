"""Reading requests: the fields that any command may carry, and what is refused, with the real server's codes."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from docstore.commands.concerns import ReadLevel, ReadMode, WriteConcern
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Role, Type
from docstore.wire.message import Message
from tests.harness.dispatching import ask, command, dispatcher_of, peer, request
from tests.harness.refusals import INSERT, LSID, REFUSALS


class Probe:
    """Keeps the context and arguments that a command was run with."""

    def __init__(self) -> None:
        self.context: Any = None
        self.arguments: Any = None
        self.dispatcher = dispatcher_of(
            command("find", self.run, value=Type.COLLECTION, role=Role.SECONDARY_OK, read_concern=True, stable=True,
                    parameters=(Parameter("filter", Type.OBJECT), Parameter("limit", Type.INT, minimum=0))),
            command("insert", self.run, value=Type.COLLECTION, role=Role.PRIMARY, retryable=True,
                    parameters=(Parameter("documents", Type.DOCUMENTS, required=True),)),
            command("hello", self.run, tolerant=True),
            command("whatsmyuri", self.run),
            command("adminThing", self.run, admin_only=True, aliases=("adminthing",)),
        )  # fmt: skip

    def run(self, context: Context, arguments: Any) -> dict[str, Any]:
        self.context, self.arguments = context, arguments
        return {}

    def code(self, body: dict[str, Any], **options: Any) -> int:
        return ask(self.dispatcher, body, **options).get("code", 0)

    def seen(self, body: dict[str, Any], **options: Any) -> Any:
        assert self.code(body, **options) == 0
        return self.context


@pytest.mark.parametrize(("body", "code"), REFUSALS)
def test_requests_are_taken_or_refused_with_the_real_servers_code(body: dict[str, Any], code: int) -> None:
    assert Probe().code(body) == code


def test_error_texts_name_the_command_and_the_field() -> None:
    dispatcher = Probe().dispatcher
    assert ask(dispatcher, {"find": "c", "foo": 1})["errmsg"] == "BSON field 'find.foo' is an unknown field."
    assert ask(dispatcher, {"find": "c", "limit": "a"})["errmsg"] == (
        "BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, double]'"
    )
    assert ask(dispatcher, {"insert": "c"})["errmsg"] == (
        "BSON field 'insert.documents' is missing but a required field"
    )


def test_a_request_needs_a_database_with_a_valid_name() -> None:
    dispatcher = Probe().dispatcher
    for document, code in (({"hello": 1}, 40571), ({"hello": 1, "$db": 1}, 13111), ({"hello": 1, "$db": "a b"}, 73)):
        reply = dispatcher.handle(Message(1, 0, bson.encode(document)), peer())
        assert isinstance(reply, bytes)
        assert bson.decode(reply)["code"] == code


def test_the_namespace_is_set_wherever_a_collection_is_named() -> None:
    seen = []
    either = command("aggregate", lambda context, arguments: seen.append(context.namespace) or {},
                     value=(Type.COLLECTION, Type.INT))  # fmt: skip
    dispatcher = dispatcher_of(either)
    ask(dispatcher, {"aggregate": "c"})
    ask(dispatcher, {"aggregate": 1})
    assert seen == ["test.c", ""]


def test_an_alias_means_the_same_command() -> None:
    probe = Probe()
    assert probe.seen({"adminthing": 1}, db="admin").command.name == "adminThing"


def test_the_envelope_is_there_in_typed_values() -> None:
    context = Probe().seen({
        "find": "c", "lsid": LSID, "readConcern": {"level": "majority", "afterClusterTime": Timestamp(3, 4)},
        "$readPreference": {"mode": "secondary", "tags": [{"dc": "a"}, {}]}, "maxTimeMS": 250, "comment": "why",
        "shardVersion": {"v": Timestamp(1, 2)},
    })  # fmt: skip
    assert (context.db, context.namespace, context.session.id) == ("test", "test.c", b"s" * 16)
    assert context.read_concern.level is ReadLevel.MAJORITY
    assert context.read_concern.after_cluster_time == 3 << 32 | 4
    assert context.read_preference.mode is ReadMode.SECONDARY
    assert context.read_preference.tag_sets == ((("dc", "a"),), ())
    assert context.deadline == 1000.25
    assert context.comment == (2, b"\x04\0\0\0why\0")
    assert bson.decode(context.shard_version) == {"v": Timestamp(1, 2)}


def test_nothing_given_is_the_default_of_everything() -> None:
    context = Probe().seen({"find": "c"})
    assert context.session is None
    assert context.deadline is None
    assert context.read_preference.mode is ReadMode.PRIMARY
    assert not context.explicit_read_concern


def test_a_retryable_write_has_its_number_and_statement_ids() -> None:
    context = Probe().seen({**INSERT, "lsid": LSID, "txnNumber": Int64(7), "stmtIds": [4, 9]})
    assert (context.session.txn_number, context.session.stmt_ids) == (7, (4, 9))
    assert context.session.statement_id(1) == 9


def test_the_write_concern_says_whether_the_client_gave_it() -> None:
    probe = Probe()
    assert probe.seen({**INSERT, "writeConcern": {"w": "majority", "j": True}}).explicit_write_concern
    assert probe.context.write_concern == WriteConcern("majority", True)
    assert not probe.seen(INSERT).explicit_write_concern


def test_a_write_of_a_causal_session_may_carry_a_cluster_time() -> None:
    probe = Probe()
    time = {"afterClusterTime": Timestamp(3, 4)}
    assert probe.seen({**INSERT, "lsid": LSID, "readConcern": time}).read_concern.after_cluster_time == 3 << 32 | 4
    assert probe.code({**INSERT, "readConcern": {"level": "majority", **time}}) == 72


def test_documents_come_from_a_sequence_or_an_array_alike() -> None:
    raw = [bson.encode({"a": 1}), bson.encode({"b": 2})]
    probe = Probe()
    assert probe.seen({"insert": "c"}, documents=raw).documents("documents") == raw
    assert probe.arguments["documents"] == raw
    assert probe.seen({"insert": "c", "documents": [{"a": 1}, {"b": 2}]}).documents("documents") == raw
    assert probe.arguments["documents"] == raw


def test_a_sequence_must_be_a_parameter_and_come_once() -> None:
    probe = Probe()
    assert probe.code({"insert": "c"}, updates=[bson.encode({})]) == 40415
    assert probe.code(INSERT, documents=[bson.encode({})]) == 40433


def test_a_repeated_field_is_refused() -> None:
    raw = bson.encode({"find": "c", "limit": 1, "$db": "test"})
    twice = bson.encode({"limit": 2})
    body = len(raw + twice[4:-1]).to_bytes(4, "little") + raw[4:-1] + twice[4:-1] + b"\0"
    probe = Probe()
    reply = probe.dispatcher.handle(Message(1, 0, body), peer())
    assert isinstance(reply, bytes)
    assert bson.decode(reply)["code"] == 40413


@given(st.binary(max_size=200))
def test_random_bytes_as_a_body_are_an_error_reply(noise: bytes) -> None:
    dispatcher = Probe().dispatcher
    body = (len(noise) + 5).to_bytes(4, "little") + noise + b"\0"
    reply = dispatcher.handle(Message(1, 0, body), peer())
    assert isinstance(reply, bytes)
    assert bson.decode(reply)["ok"] == 0.0


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5) |
    st.just(Timestamp(1, 1)) | st.just(Binary(b"x" * 16, 4)) | st.just(Decimal128("NaN")) | st.just(Decimal128("1E9")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abwj"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
FIELDS = (
    "$clusterTime", "$db", "$queryOptions", "$readPreference", "apiDeprecationErrors", "apiStrict", "apiVersion",
    "autocommit", "comment", "documents", "filter", "help", "limit", "lsid", "maxTimeMS", "readConcern", "shardVersion",
    "startTransaction", "stmtId", "stmtIds", "txnNumber", "writeConcern",
)  # fmt: skip


@given(
    st.sampled_from(["find", "insert", "hello"]), values, st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
)
def test_no_value_of_any_field_is_an_internal_error(name: str, value: Any, fields: dict[str, Any]) -> None:
    try:
        message = request({name: value, **fields})
    except (bson.errors.InvalidDocument, OverflowError):
        return
    reply = Probe().dispatcher.handle(message, peer())
    assert isinstance(reply, bytes)
    assert bson.decode(reply).get("code") != 1


def test_a_client_that_repeats_itself_gets_a_request_of_its_own_each_time() -> None:
    probe, client, clock = Probe(), peer(), 1000.0
    body = {"insert": "c", "lsid": LSID, "maxTimeMS": 100}
    seen = []
    for documents in ([b"\5\0\0\0\0"], [b"\5\0\0\0\0"] * 2):
        probe.dispatcher.handle(request(body, documents=documents), client)
        probe.context.about("changed.by.a.command")
        seen.append((probe.context, probe.arguments["documents"], probe.context.deadline - clock))
        probe.dispatcher.services.clock.advance(10)
        clock += 10
    assert [len(documents) for _, documents, _ in seen] == [1, 2]
    assert [round(left, 3) for *_, left in seen] == [0.1, 0.1]
    probe.dispatcher.handle(request(body, documents=[b"\5\0\0\0\0"]), client)
    assert probe.context.reported_namespace == "test.c"
    assert probe.context is not seen[0][0]
    reply = probe.dispatcher.handle(request(body), client)
    assert bson.decode(reply)["code"] == 40414


def test_requests_derived_from_one_have_its_progress_and_leave_it_as_it_was() -> None:
    probe = Probe()
    probe.dispatcher.handle(request({"find": "c", "filter": {}}), peer())
    context = probe.context
    assert context.begun_progress is None
    assert context.about("test.c") is context
    below = context.about("test.d")
    assert (context.namespace, below.namespace) == ("test.c", "test.d")
    assert (context.reported_namespace, below.reported_namespace) == ("test.d", "test.d")
    assert below.operation is context.operation
    other = below.derived(raw=bson.encode({"count": "c"}), namespace="test.e")
    assert other.body == {"count": "c"}
    assert below.body["find"] == "c"
    assert (other.namespace, other.reported_namespace) == ("test.e", "test.d")


def test_the_same_bytes_from_another_client_are_read_anew() -> None:
    probe = Probe()
    for client in (peer(), peer()):
        probe.dispatcher.handle(request({"find": "c"}), client)
        assert probe.context.connection is client


@given(st.lists(st.sampled_from([{"find": "c"}, {"find": "d", "limit": 5}, {"find": "c", "limit": None}, {"find": 1}])))
def test_replies_do_not_depend_on_what_was_asked_before(bodies: list[dict[str, Any]]) -> None:
    probe, client = Probe(), peer()
    for body in bodies:
        assert probe.dispatcher.handle(request(body), client) == probe.dispatcher.handle(request(body), peer())
