"""Tables of commands hold each spelling once."""

from __future__ import annotations

import bson
import pytest

from docstore.commands.arguments import declared, parse_fields
from docstore.commands.declaration import PUBLIC, CommandTable, Parameter, Role, Type
from docstore.commands.specs.unsupported import unsupported
from docstore.errors import CommandError
from tests.harness.dispatching import command, dispatcher_of


def test_a_spelling_belongs_to_one_command() -> None:
    with pytest.raises(AssertionError, match="twice"):
        CommandTable([command("a"), command("b", aliases=("a",))])


def test_a_command_that_a_process_serves_is_not_unsupported_there() -> None:
    served = command("a")
    table = CommandTable([served], unsupported=(unsupported("a", PUBLIC, "no"), unsupported("b", PUBLIC, "no")))
    assert table.get("a") is served
    assert table.get("b").refuses == "no"


def test_an_unsupported_command_is_not_listed() -> None:
    table = CommandTable([command("a")], unsupported=(unsupported("b", PUBLIC, "no"),))
    assert [each.name for each in table] == ["a"]
    assert "b" not in table
    assert table.find("c") is None


def test_a_table_lists_each_command_once_in_order() -> None:
    table = CommandTable([command("b", aliases=("B",)), command("a")])
    assert [each.name for each in table] == ["a", "b"]
    assert len(table) == 2
    assert "B" in table


def test_a_parameter_is_declared_once() -> None:
    with pytest.raises(AssertionError, match="twice"):
        command("a", parameters=(Parameter("x", Type.ANY), Parameter("x", Type.BOOL)))


def test_a_parameter_is_not_named_like_a_field_that_every_command_has() -> None:
    with pytest.raises(AssertionError, match="lsid"):
        dispatcher_of(command("a", parameters=(Parameter("lsid", Type.ANY),)))


def test_writes_take_a_write_concern_unless_declared_otherwise() -> None:
    assert command("a", role=Role.PRIMARY).takes_write_concern
    assert not command("a", role=Role.ANY).takes_write_concern
    assert command("a", role=Role.ANY, write_concern=True).takes_write_concern


STATEMENT = declared(
    Parameter("q", Type.OBJECT, required=True),
    Parameter("limit", Type.INT, required=True, maximum=1),
    Parameter("hint", (Type.STRING, Type.OBJECT)),
    Parameter("collation", Type.OBJECT, unsupported="collation is not supported yet"),
    Parameter("ids", Type.LONGS, default=()),
)


def outcome(fields: dict) -> int | dict:

    try:
        return dict(parse_fields("delete.deletes", bson.encode(fields), STATEMENT).sent_values())
    except CommandError as error:
        return error.code


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"q": {}, "limit": 1}, {"q": b"\5\0\0\0\0", "limit": 1}),
        ({"q": {}, "limit": 1.0, "hint": "a_1"}, {"q": b"\5\0\0\0\0", "limit": 1, "hint": "a_1"}),
        ({"q": {}, "limit": 1, "hint": None}, {"q": b"\5\0\0\0\0", "limit": 1}),
        ({"q": {}, "limit": 1, "collation": {}}, {"q": b"\5\0\0\0\0", "limit": 1, "collation": b"\5\0\0\0\0"}),
        ({"q": {}, "limit": 1, "collation": {"locale": "de"}}, 238),
        ({"q": {}, "limit": 1, "hint": 5}, 14),
        ({"q": {}, "limit": 5}, 51024),
        ({"q": {}}, 40414),
        ({"q": {}, "limit": None}, 40414),
        ({"q": 1, "limit": 1}, 14),
        ({"q": {}, "limit": 1, "foo": 1}, 40415),
        ({"q": {}, "limit": 1, "ids": [1]}, 14),
    ],
)
def test_sub_documents_are_read_by_the_same_rules(fields: dict, expected: int | dict) -> None:
    assert outcome(fields) == expected
