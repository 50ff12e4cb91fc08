"""The order of values, predicates and index keys against a real server, on random documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from random import Random
from typing import Any

import pymongo
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database
from pymongo.errors import WriteError

from docstore.bson import Value, array_from, compare, document_from, elements, from_python, get_field
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.match.path_predicates import All, Compare, ElemMatch, Exists, In, Mod, Size, Type
from docstore.kernel.match.predicate import Not, Predicate
from tests.harness.reference import reference_server
from tests.unit.kernel.samples import decimal, double, int32, regex, string, value
from tests.unit.kernel.test_predicates import COMPARISONS, raw_of

pytestmark = pytest.mark.reference

Operator = tuple[bytes, Callable[[str], Predicate]]
"""The operators as a filter has them, and what they mean at a path."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[Any]]:
    with reference_server(tmp_path_factory.mktemp("reference")) as port:
        client: pymongo.MongoClient[Any] = pymongo.MongoClient("127.0.0.1", port, document_class=RawBSONDocument)
        with client:
            yield client["kernel"]


def fields(*members: tuple[str, int, bytes]) -> bytes:
    return document_from(members)


def small(rnd: Random) -> Value:
    """A scalar out of few, so that filters often match; never one that a filter may not hold."""
    return rnd.choice(
        [
            *(int32(number) for number in range(4)),
            double(rnd.choice([1.0, float("nan"), 2.5, 0.0])),
            decimal(rnd.choice(["1", "NaN", "2.5", "Infinity"])),
            string(rnd.choice("ab")),
            (0x0A, b""),
            (0x08, rnd.choice([b"\0", b"\1"])),
            (rnd.choice((0xFF, 0x7F)), b""),
        ]
    )


def stored(rnd: Random, depth: int) -> Value:
    """A value for a document: also undefined and regexes."""
    kind = rnd.randrange(10) if depth else 9
    if kind < 3:
        return 0x03, stored_document(rnd, depth - 1)
    if kind < 6:
        return 0x04, array_from([stored(rnd, depth - 1) for _ in range(rnd.randrange(4))])
    return rnd.choice([(0x06, b""), regex("a", "")]) if rnd.random() < 0.15 else small(rnd)


def stored_document(rnd: Random, depth: int) -> bytes:
    return document_from(
        [(name, *stored(rnd, depth)) for name in rnd.sample(["a", "b", "0", "1"], rnd.randrange(1, 4))]
    )


def numbered(rnd: Random, count: int) -> list[bytes]:
    return [fields(("_id", *int32(i)), *elements(stored_document(rnd, 3))) for i in range(count)]


def asked(rnd: Random) -> Value:
    """A value for a filter."""
    while True:
        found = stored(rnd, 2)
        if found[0] not in (0x06, 0x0B):
            return found


def random_path(rnd: Random) -> str:
    return ".".join(rnd.choice(["a", "b", "a", "b", "0", "1"]) for _ in range(rnd.choice([1, 1, 2, 2, 3])))


def comparison(rnd: Random) -> Operator:
    op, operand = rnd.choice(["eq", "lt", "lte", "gt", "gte"]), asked(rnd)
    return fields(("$" + op, *operand)), lambda path: Compare(path, op, operand)


def membership(rnd: Random) -> Operator:
    operands = [asked(rnd) for _ in range(3)]
    if rnd.random() < 0.5:
        return fields(("$in", 0x04, array_from(operands))), lambda path: In(path, operands)
    return fields(("$all", 0x04, array_from(operands[:2]))), lambda path: All(path, operands[:2])


def shape(rnd: Random) -> Operator:
    kind = rnd.randrange(4)
    if kind == 0:
        wanted = rnd.random() < 0.5
        return fields(("$exists", 0x08, bytes([wanted]))), lambda path: Exists(path, wanted)
    if kind == 1:
        size = rnd.randrange(4)
        return fields(("$size", *int32(size))), lambda path: Size(path, size)
    if kind == 2:
        divisor, remainder = rnd.choice([1, 2, 3, -2]), rnd.randrange(2)
        pair = array_from([int32(divisor), int32(remainder)])
        return fields(("$mod", 0x04, pair)), lambda path: Mod(path, divisor, remainder)
    codes = rnd.sample([1, 2, 3, 4, 6, 8, 10, 16, 19, -1, 127], 2)
    return fields(("$type", 0x04, array_from([int32(code) for code in codes]))), lambda path: Type(path, codes)


def operator(rnd: Random, depth: int = 2) -> Operator:
    kind = rnd.randrange(10)
    if kind < 4:
        return comparison(rnd)
    if kind < 6:
        return membership(rnd)
    if kind < 8 or not depth:
        return shape(rnd)
    raw, meaning = operator(rnd, depth - 1)
    if rnd.random() < 0.5:
        return fields(("$elemMatch", 0x03, raw)), lambda path: ElemMatch(path, meaning(""), True)
    inner = random_path(rnd)
    return (
        fields(("$elemMatch", 0x03, fields((inner, 0x03, raw)))),
        lambda path: ElemMatch(path, meaning(inner)),
    )


def found_ids(database: Database[Any], filter_raw: bytes) -> set[int]:
    return {number_of(found.raw) for found in database.c.find(RawBSONDocument(filter_raw))}


def number_of(raw: bytes) -> int:
    found = get_field(raw, "_id")
    assert found is not None
    return int.from_bytes(found[1], "little")


def store(database: Database[Any], documents: list[bytes]) -> None:
    database.c.drop()
    for start in range(0, len(documents), 100):
        database.c.insert_many([RawBSONDocument(raw) for raw in documents[start : start + 100]])


@pytest.mark.parametrize("seed", range(8))
def test_values_are_in_the_servers_order(database: Database[Any], seed: int) -> None:
    rnd = Random(seed)
    made = [value(rnd) for _ in range(300)]
    store(database, [fields(("_id", *int32(i)), ("v", 0x03, fields(("x", *one)))) for i, one in enumerate(made)])
    theirs = [number_of(found.raw) for found in database.c.find({}, sort=[("v", 1), ("_id", 1)])]
    ours = sorted(range(len(made)), key=cmp_to_key(lambda i, j: compare(made[i], made[j]) or i - j))
    assert theirs == ours
    assert theirs == sorted(range(len(made)), key=lambda i: (encode_key(made[i]), i))


@pytest.mark.parametrize("seed", range(6))
def test_predicates_hold_for_the_documents_that_the_server_finds(database: Database[Any], seed: int) -> None:
    rnd = Random(seed)
    documents = numbered(rnd, 300)
    store(database, documents)
    for _ in range(100):
        path, (raw, meaning) = random_path(rnd), operator(rnd)
        predicate = meaning(path)
        if rnd.random() < 0.3:
            raw, predicate = fields(("$not", 0x03, raw)), Not(predicate)
        filter_raw = fields((path, 0x03, raw))
        ours = {i for i, document in enumerate(documents) if predicate.matches(document)}
        assert found_ids(database, filter_raw) == ours, elements(filter_raw)


def test_the_rows_of_the_comparison_table_are_the_servers(database: Database[Any]) -> None:
    for path, op, operand, holds, fails in COMPARISONS:
        things = [raw_of(thing) for thing in (*holds, *fails)]
        store(database, [fields(("_id", *int32(i)), *elements(raw)) for i, raw in enumerate(things)])
        filter_raw = fields((path, 0x03, fields(("$" + op, *from_python(operand)))))
        assert found_ids(database, filter_raw) == set(range(len(holds))), (path, op, operand)


@pytest.mark.parametrize("seed", range(12))
def test_index_keys_are_the_servers(database: Database[Any], seed: int) -> None:
    """The least and the greatest key of a document and how many it has; `g` keeps the documents apart."""
    rnd = Random(seed)
    paths = {random_path(rnd): rnd.choice((1, -1)) for _ in range(rnd.choice([1, 1, 2, 3]))}
    pattern = KeyPattern(list(paths.items()))
    database.c.drop()
    database.c.create_index([("g", 1), *pattern.fields], name="i")
    for i, raw in enumerate(numbered(rnd, 40)):
        document = fields(("g", *int32(i)), *elements(raw))
        refusal = server_refusal(database, document)
        if refusal is not None:
            with pytest.raises(CommandError) as refused:
                pattern.keys(document)
            assert refused.value.code == refusal
            continue
        ours, _ = pattern.keys(document)
        theirs = [server_key(database, pattern, i, direction) for direction in (1, -1)]
        assert theirs == [ours[0], ours[-1]], elements(document)
        assert keys_examined(database, i) == len(ours), elements(document)


def server_refusal(database: Database[Any], document: bytes) -> int | None:
    """The code with which the server refuses the document, or None."""
    try:
        database.c.insert_one(RawBSONDocument(document))
    except WriteError as error:
        return error.code
    return None


def server_key(database: Database[Any], pattern: KeyPattern, group: int, direction: int) -> bytes:
    """The first key of a document in the index, walking it forward or backward."""
    order = [("g", direction), *((path, sign * direction) for path, sign in pattern.fields)]
    [found] = database.c.find({"g": group}, sort=order, hint="i", return_key=True)
    return pattern.encode([(code, raw) for _, code, raw in elements(found.raw)[1:]])


def keys_examined(database: Database[Any], group: int) -> int:
    query = {"find": "c", "filter": {"g": group}, "hint": "i"}
    explained = database.command({"explain": query, "verbosity": "executionStats"})
    examined: int = explained["executionStats"]["totalKeysExamined"]
    return examined
