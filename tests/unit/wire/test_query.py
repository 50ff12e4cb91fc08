"""The opcodes of 2012 as operations."""

from __future__ import annotations

import struct

import bson
import pytest

from docstore.wire import ProtocolError, decode_frame
from docstore.wire.query import OP_QUERY, Operation, reply_body, reply_head
from tests.harness import frames


def _operation(frame: bytes) -> Operation:
    operation = decode_frame(frame).operation
    assert operation is not None
    return operation


def test_a_query_keeps_its_flags_counts_and_documents() -> None:
    frame = frames.query(bson.encode({"x": 1}), request_id=4, namespace="db.c", skip=3, number=-2, flags=4)
    message = decode_frame(frame)
    assert message.opcode == OP_QUERY
    assert message.operation == Operation(OP_QUERY, "db.c", 4, (bson.encode({"x": 1}),), 3, -2)


def test_writes_carry_their_documents() -> None:
    documents = [bson.encode({"_id": number}) for number in (1, 2)]
    assert _operation(frames.insert("db.c", documents)).documents == tuple(documents)
    assert _operation(frames.update("db.c", *documents, flags=3)).flags == 3
    assert _operation(frames.delete("db.c", documents[0], flags=1)).documents == (documents[0],)


def test_cursors_are_named_by_their_ids() -> None:
    operation = _operation(frames.get_more("db.c", 10, 77))
    assert (operation.ids, operation.number) == ((77,), 10)
    assert _operation(frames.kill_cursors(7, -8)).ids == (7, -8)


@pytest.mark.parametrize(
    "frame",
    [
        frames.query(bson.encode({"isMaster": 1}), request_id=4, namespace="admin.$cmd"),
        frames.insert("db.c", [bson.encode({})]),
        frames.update("db.c", bson.encode({}), bson.encode({})),
        frames.delete("db.c", bson.encode({})),
        frames.get_more("db.c", 1, 1),
        frames.kill_cursors(1, 2),
    ],
)
def test_a_cut_operation_is_refused(frame: bytes) -> None:
    for end in range(16, len(frame)):
        with pytest.raises(ProtocolError):
            decode_frame(struct.pack("<i", end) + frame[4:end])


@pytest.mark.parametrize("namespace", ["nodot", ".c", "db."])
def test_an_operation_needs_a_namespace(namespace: str) -> None:
    with pytest.raises(ProtocolError, match="namespace"):
        decode_frame(frames.query(bson.encode({}), request_id=4, namespace=namespace))


def test_a_reply_round_trips() -> None:
    body = bson.encode({"ok": 1.0})
    reply = reply_body([body])
    message = decode_frame(reply_head(len(reply), request_id=8, response_to=4) + reply)
    assert (message.body, message.request_id, message.response_to) == (body, 8, 4)
