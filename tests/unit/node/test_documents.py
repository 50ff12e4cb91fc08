from __future__ import annotations

import re

import bson
import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.bson import document_from, from_python
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import Code, CommandError
from docstore.node.write.documents import prepare

NEW_ID = bytes(range(12))
NOW = (5 << 32 | 7).to_bytes(8, "little")


def prepared(raw: bytes) -> bytes:
    return prepare(raw, lambda: NEW_ID, lambda: NOW)


def raw_of(*fields: tuple[str, object]) -> bytes:
    """A document whose field names may repeat."""
    return document_from([(name, *from_python(value)) for name, value in fields])


def refusal(raw: bytes) -> int:
    with pytest.raises(CommandError) as caught:
        prepared(raw)
    return caught.value.code


def test_a_document_with_an_object_id_in_front_is_stored_as_it_came() -> None:
    raw = bson.encode({"_id": ObjectId(), "$x": 1, "a.b": 2})
    assert prepared(raw) is raw


def test_a_missing_id_is_put_in_front() -> None:
    assert list(bson.decode(prepared(bson.encode({"x": 1}))).items()) == [("_id", ObjectId(NEW_ID)), ("x", 1)]


def test_an_id_further_back_moves_to_the_front_and_repeated_fields_stay() -> None:
    assert prepared(raw_of(("x", 1), ("x", 2), ("_id", 5), ("y", {"_id": 9}))) == raw_of(
        ("_id", 5), ("x", 1), ("x", 2), ("y", {"_id": 9})
    )


def test_a_zero_timestamp_at_the_top_becomes_the_present_one() -> None:
    zero = Timestamp(0, 0)
    found = bson.decode(prepared(bson.encode({"_id": zero, "t": zero, "n": {"t": zero}})))
    assert found == {"_id": zero, "t": Timestamp(5, 7), "n": {"t": zero}}


def test_eight_zero_bytes_that_are_no_timestamp_change_nothing() -> None:
    raw = bson.encode({"_id": ObjectId(), "x": 0.0, "y": bytes(20)})
    assert prepared(raw) == raw


@pytest.mark.parametrize("identity", [[1], re.compile("a")])
def test_ids_of_types_that_cannot_be_found_again_are_refused(identity: object) -> None:
    assert refusal(bson.encode({"_id": identity})) == Code.InvalidIdField


@pytest.mark.parametrize("identity", [{"$a": 1}, {"a": {"$b": 1}}, {"a": [{"$b": 1}]}])
def test_ids_with_operators_inside_are_refused(identity: object) -> None:
    assert refusal(bson.encode({"_id": identity})) == Code.DollarPrefixedFieldName


def test_two_ids_are_refused_also_behind_an_object_id() -> None:
    assert refusal(raw_of(("_id", ObjectId()), ("x", 1), ("_id", 2))) == Code.BadValue
    assert refusal(raw_of(("_id", 1), ("_id", 2))) == Code.BadValue


def test_documents_over_the_limit_are_refused() -> None:
    assert refusal(bson.encode({"_id": 1, "x": "a" * MAX_DOCUMENT_BYTES})) == Code.BadValue


def test_an_added_id_counts_towards_the_limit() -> None:
    filler = MAX_DOCUMENT_BYTES - len(bson.encode({"x": ""}))
    raw = bson.encode({"x": "a" * filler})
    assert len(raw) == MAX_DOCUMENT_BYTES
    assert refusal(raw) == Code.BadValue


def test_bytes_that_are_no_document_are_refused() -> None:
    assert refusal(b"\x09\0\0\0\x08x\0\5\0") == Code.InvalidBSON


def test_nesting_beyond_180_levels_is_refused() -> None:
    document: dict[str, object] = {}
    for _ in range(185):
        document = {"a": document}
    assert refusal(bson.encode({"_id": 1, "d": document})) == Code.Overflow
