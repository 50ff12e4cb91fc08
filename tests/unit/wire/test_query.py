"""OP_QUERY carries a hello and nothing else."""

from __future__ import annotations

import struct

import bson
import pytest

from docstore.wire import ProtocolError, decode_frame
from docstore.wire.query import OP_QUERY, encode_reply
from tests.harness.frames import query


@pytest.mark.parametrize("name", ["isMaster", "ismaster", "hello"])
def test_a_hello_becomes_a_command_with_its_database(name: str) -> None:
    frame = query(bson.encode({name: 1, "helloOk": True}), request_id=4, namespace="admin.$cmd")
    message = decode_frame(frame)
    assert message.opcode == OP_QUERY
    assert bson.decode(message.body) == {name: 1, "helloOk": True, "$db": "admin"}


@pytest.mark.parametrize(
    ("document", "namespace"),
    [({"ping": 1}, "admin.$cmd"), ({"isMaster": 1}, "admin.users"), ({}, "test.x"), ({}, "nodot")],
)
def test_any_other_query_is_refused(document: dict, namespace: str) -> None:
    with pytest.raises(ProtocolError, match="hello"):
        decode_frame(query(bson.encode(document), request_id=4, namespace=namespace))


def test_a_cut_query_is_refused() -> None:
    frame = query(bson.encode({"isMaster": 1}), request_id=4, namespace="admin.$cmd")
    for end in range(16, len(frame)):
        with pytest.raises(ProtocolError):
            decode_frame(struct.pack("<i", end) + frame[4:end])


def test_a_reply_round_trips() -> None:
    body = bson.encode({"ok": 1.0})
    message = decode_frame(encode_reply(body, request_id=8, response_to=4))
    assert (message.body, message.request_id, message.response_to) == (body, 8, 4)
