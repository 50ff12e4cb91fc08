"""Statements of writes read in one walk: as the general way reads them, or left to it."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest
from bson import SON, Int64

from docstore.commands.requests.bulk_write import _statement as general_operation
from docstore.errors import CommandError
from docstore.node.write.identity import identity_in
from docstore.node.write.update_statements import UpdateStatement, update_statement
from tests.unit.kernel.kernels import Kernel

_VALUES: list[Any] = [
    {}, {"a": 1}, {"_id": 7}, {"$set": {"a": 1}}, True, False, 1, Int64(1), 1.0, None, "x", [], [{"$a": 1}],
]  # fmt: skip
_NAMES = {
    "insert": ("insert", "document"),
    "update": ("update", "filter", "updateMods", "multi", "upsert", "sort"),
    "delete": ("delete", "filter", "multi", "upsert"),
}


def _random(rng: Random, names: tuple[str, ...], likely: dict[str, Any]) -> bytes:
    """A document of some of the names, most with the value that they should have."""
    fields = [
        (name, likely[name] if rng.random() < 0.9 else rng.choice(_VALUES)) for name in names if rng.random() < 0.8
    ]
    if rng.random() < 0.2:
        rng.shuffle(fields)
    raw = bson.encode(SON(fields))
    if rng.random() < 0.05:
        raw = raw[: rng.randrange(len(raw))] + b"\0"
    return raw


@pytest.mark.parametrize("seed", range(4))
def test_statements_of_updates_are_those_of_the_general_way(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    likely = {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}, "multi": False, "upsert": True, "hint": {"_id": 1}}
    for _ in range(400):
        raw = _random(rng, ("q", "u", "multi", "upsert", "hint"), likely)
        taken: list[bytes] = []

        def otherwise(raw: bytes, taken: list[bytes] = taken) -> UpdateStatement:
            taken.append(raw)
            return UpdateStatement(b"", (0, b""))

        try:
            (found,) = kernel.write.statements.update_statements([raw], UpdateStatement, otherwise)
        except CommandError:
            with pytest.raises(CommandError):
                update_statement(raw)
            continue
        if not taken:
            assert found == update_statement(raw)
            assert type(found) is UpdateStatement


@pytest.mark.parametrize("seed", range(4))
def test_operations_of_a_bulk_write_are_those_of_the_general_way(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    likely = {
        "insert": 0, "update": 1, "delete": 2, "document": {"_id": 1}, "filter": {"_id": 1}, "multi": True,
        "updateMods": {"$set": {"a": 1}}, "upsert": True, "sort": {"a": 1},
    }  # fmt: skip
    read = 0
    for _ in range(400):
        raw = _random(rng, _NAMES[rng.choice(("insert", "update", "delete"))], likely)
        try:
            found = kernel.write.statements.bulk_operation(raw)
        except CommandError:
            with pytest.raises(CommandError):
                general_operation(raw)
            continue
        if found is not None:
            read += 1
            of_general = general_operation(raw)
            assert (found[0], found[1], found[3]) == (of_general[0], of_general[1], of_general[3])
            assert _meaning(found[0], found[2]) == _meaning(of_general[0], of_general[2])
    assert read > 40


def _meaning(kind: str, statement: bytes) -> Any:
    """What an update says that it is not is as if it said nothing."""
    return update_statement(statement) if kind == "update" else bson.decode(statement)


def test_filters_that_ask_for_one_id_are_told_from_others(kernel: Kernel) -> None:
    filters: list[dict[str, Any]] = [{"_id": value} for value in (*_VALUES, bson.ObjectId(), b"x", bson.Regex("a"))]
    filters += [{}, {"_id": 1, "a": 1}, {"a": 1}, {"_ie": 1}, {"_id2": 1}, {"_id": {"$in": [1]}}]
    for condition in filters:
        raw = bson.encode(condition)
        known = identity_in(raw)
        code = kernel.write.statements.identity_type(raw)
        assert code == (0 if known is None else known[0]), condition
        assert known is None or raw[9:-1] == known[1]
