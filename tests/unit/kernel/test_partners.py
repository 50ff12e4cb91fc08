"""Partners found by keys and put into documents, compiled and interpreted alike."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest
from bson import Decimal128, Regex

from docstore.bson.build import append_fields, documents_array, enclosed, encoded_fields
from docstore.kernel.keys.encoding import encode_key
from tests.unit.kernel.kernels import Kernel

NEVER = float("inf")
VALUES: list[Any] = [
    None, 0, 1, 1.0, Decimal128("1"), float("nan"), "a", "b\0", "", {"x": 1}, {"x": None}, True, b"x", [], [1, "a"],
    [[1]], [None], Regex("a"),
]  # fmt: skip


def random_document(rng: Random) -> dict[str, Any]:
    path = rng.choice(("a", "a", "a", "b", "j"))
    value = rng.choice(VALUES)
    return {"_id": rng.randrange(9), path: rng.choice((value, {"c": value}, [{"c": value}]))}


@pytest.mark.parametrize("path", ["a", "a.c", "a.0"])
def test_documents_are_found_by_each_of_their_keys(kernel: Kernel, path: str) -> None:
    rng = Random(path)
    documents = [bson.encode(random_document(rng)) for _ in range(200)]
    table = kernel.group.partners.KeyedDocuments(path, None)
    table.add(documents[:90])
    table.add(documents[90:])
    pattern = kernel.KeyPattern([(path, 1)])
    keys = [pattern.keys(document)[0] for document in documents]
    assert table.size == sum(map(len, documents))
    for key in {each for own in keys for each in own}:
        places = [place for place, own in enumerate(keys) if key in own]
        assert table.positions_of(key) == places
        assert table.with_key(key) == [documents[place] for place in places]
    assert table.positions_of(b"nothing") == table.with_key(b"nothing") == []


def test_what_keys_do_not_tell_has_none(kernel: Kernel) -> None:
    plain, documents = kernel.group.partners.plain_keys, [bson.encode({"a": value}) for value in VALUES]
    expected = [
        None if value is None or isinstance(value, list | Regex) else encode_key((code, data))
        for value, ((_, code, data),) in zip(VALUES, map(kernel.elements, documents), strict=True)
    ]
    assert plain(kernel.KeyPattern([("a", 1)]), documents) == expected
    undefined = enclosed(b"\x06a\0")
    for path in ("a", "b", "a.b"):
        assert plain(kernel.KeyPattern([(path, 1)]), [undefined]) == [None]


@pytest.mark.parametrize("unwinds", [False, True])
@pytest.mark.parametrize("keeps_lonely", [False, True])
def test_partners_are_put_in_as_a_field_is_added(kernel: Kernel, unwinds: bool, keeps_lonely: bool) -> None:
    rng = Random(8)
    partners = [bson.encode({"a": number % 7, "n": number}) for number in range(40)]
    table = kernel.group.partners.KeyedDocuments("a", None)
    table.add(partners)
    documents = [bson.encode(random_document(rng)) for _ in range(300)]
    keys = [rng.choice((None, encode_key((0x10, bytes((rng.randrange(9), 0, 0, 0)))))) for _ in documents]
    join = kernel.group.partners.PartnerJoin("j", unwinds=unwinds, keeps_lonely=keeps_lonely)

    at, made, left = 0, list[bytes](), list[int]()
    while at < len(documents):
        begun, before = at, len(made)
        at, size = join.join(documents, keys, at, table, made, 1 << 20, lambda: 0.0, NEVER)
        assert size == sum(map(len, made[before:]))
        expected = []
        for document, key in zip(documents[begun:at], keys[begun:at], strict=True):
            found = table.with_key(key)
            fields = (
                [encoded_field(0x03, each) for each in found]
                if unwinds
                else [encoded_field(0x04, documents_array(found))]
            )
            expected += [append_fields(document, field) for field in fields]
            if not found and unwinds and keeps_lonely:
                expected.append(document)
        assert made[before:] == expected
        if at < len(documents):
            left.append(at)
            at += 1
    assert left == [place for place, key in enumerate(keys) if key is None or "j" in bson.decode(documents[place])]


def encoded_field(code: int, data: bytes) -> bytes:
    return bytes((code,)) + b"j\0" + data


def test_a_join_ends_when_enough_is_made_and_when_time_is_up(kernel: Kernel) -> None:
    document = bson.encode({"a": 1})
    table = kernel.group.partners.KeyedDocuments("a", None)
    keys: list[bytes | None] = [b"?"] * 1000
    join = kernel.group.partners.PartnerJoin("j", unwinds=False, keeps_lonely=False)
    made: list[bytes] = []
    empty = len(append_fields(document, encoded_fields(bson.encode({"j": []}))))
    assert join.join([document] * 1000, keys, 10, table, made, 5 * empty, lambda: 0.0, NEVER) == (15, 5 * empty)
    at, _ = join.join([document] * 1000, keys, 0, table, made, 1 << 30, lambda: 1.0, 1.0)
    assert 0 < at < 1000


def test_what_is_too_large_is_left(kernel: Kernel) -> None:
    table = kernel.group.partners.KeyedDocuments("a", None)
    table.add([bson.encode({"a": 1, "text": "x" * (9 << 20)})] * 2)
    (key,) = kernel.KeyPattern([("a", 1)]).keys(bson.encode({"a": 1}))[0]
    small, made = bson.encode({}), list[bytes]()
    join = kernel.group.partners.PartnerJoin("j", unwinds=False, keeps_lonely=False)
    assert join.join([small], [key], 0, table, made, 1 << 30, lambda: 0.0, NEVER) == (0, 0)
    join = kernel.group.partners.PartnerJoin("j", unwinds=True, keeps_lonely=False)
    large = bson.encode({"text": "x" * (16 << 20)})
    assert join.join([large], [b"?"], 0, table, made, 1 << 30, lambda: 0.0, NEVER) == (0, 0)
    assert join.join([small], [key], 0, table, made, 1 << 30, lambda: 0.0, NEVER)[0] == 1
