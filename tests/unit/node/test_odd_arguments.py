"""Arguments of commands about the server that the real one judges in ways of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docstore.commands.parameters import whole_number
from docstore.errors import Code, CommandError
from tests.unit.node.local import LocalNode


def replies(*commands: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    async def story() -> list[dict[str, Any]]:
        node = LocalNode()
        return [await node.reply(command, db) for db, command in commands]

    return asyncio.run(story())


def test_some_refusals_have_no_code() -> None:
    for reply in replies(
        ("admin", {"fsyncUnlock": 1}), ("test", {"dbStats": 1, "scale": 0}), ("test", {"dbStats": 1, "scale": "x"})
    ):
        assert reply["ok"] == 0
        assert "code" not in reply


def test_a_database_that_is_not_there_has_figures_of_integers() -> None:
    (reply,) = replies(("none", {"dbStats": 1, "freeStorage": 1, "unknown": 1}))
    assert isinstance(reply["dataSize"], int)
    assert (reply["freeStorageSize"], reply["indexFreeStorageSize"], reply["totalFreeStorageSize"]) == (0, 0, 0)


@pytest.mark.parametrize(("op", "code"), [(1.5, 2), (1 << 40, 26823), ("x", 14), (None, 14), (1e30, 2)])
def test_operations_have_ids_of_32_bits(op: object, code: int) -> None:
    (reply,) = replies(("admin", {"killOp": 1, "op": op}))
    assert reply["code"] == code


@pytest.mark.parametrize("name", ["collStats", "count", "validate", "distinct", "reIndex"])
def test_a_collection_name_that_is_no_string_is_an_invalid_namespace(name: str) -> None:
    (reply,) = replies(("test", {name: 1}))
    assert reply["code"] == 73


NAN = float("nan")
_USER = {"createUser": "u", "pwd": "p", "roles": []}
_PRIVILEGE = {"resource": {"db": "test", "collection": ""}, "actions": [{}]}


@pytest.mark.parametrize(
    ("db", "command", "code"),
    [
        ("test", {"createIndexes": "c", "indexes": [{"key": {"q": "2d"}, "name": "q", "bits": NAN}]}, 72),
        ("test", {"createIndexes": "c", "indexes": [{"key": {"q": "2d"}, "name": "q", "bits": float("inf")}]}, 72),
        ("test", {**_USER, "authenticationRestrictions": [{"clientSource": -1}]}, 14),
        ("test", {**_USER, "authenticationRestrictions": [{"clientSource": [1]}]}, 14),
        ("test", {**_USER, "authenticationRestrictions": [{"serverAddress": "a"}]}, 14),
        ("test", {"createRole": "r", "roles": [], "privileges": [_PRIVILEGE]}, 2),
    ],
    ids=["bits NaN", "bits Inf", "number", "list of numbers", "text", "action"],
)  # fmt: skip
def test_values_of_wrong_kinds_are_refused_as_by_a_real_server(db: str, command: dict[str, Any], code: int) -> None:
    (reply,) = replies((db, command))
    assert reply["code"] == code


@pytest.mark.parametrize("value", [NAN, float("inf"), -float("inf")])
def test_a_parameter_of_whole_numbers_takes_no_nan(value: float) -> None:
    with pytest.raises(CommandError) as refused:
        whole_number("ttlMonitorSleepSecs", value)
    assert refused.value.code == Code.BadValue
