"""A spec becomes a command by a handler, and exceptions are stated with their reasons or not made."""

from __future__ import annotations

import pytest

from docstore.commands.declaration import (
    AUTHENTICATED,
    PUBLIC,
    Command,
    Exceptional,
    Parameter,
    Resource,
    Role,
    Spec,
    Type,
)

SPEC = Spec(
    "look", privilege=PUBLIC, role=Role.ANY, retryable=True,
    parameters=(Parameter("at", Type.STRING), Parameter("far", Type.BOOL, default=False)), help="have a look",
)  # fmt: skip


def run(_context: object, _arguments: object) -> dict[str, int]:
    return {}


def test_a_command_has_all_that_its_spec_says() -> None:
    command = SPEC.command(run)
    assert command == Command(
        "look", run, privilege=PUBLIC, role=Role.ANY, retryable=True, parameters=SPEC.parameters, help="have a look",
        spec=SPEC,
    )  # fmt: skip
    assert command.by_name == {"at": SPEC.parameters[0], "far": SPEC.parameters[1]}


def test_exceptions_are_made_one_after_the_other() -> None:
    further = Parameter("from", Type.STRING, internal=True)
    refused = Parameter("far", Type.BOOL, default=False, unsupported="too far")
    command = SPEC.command(
        run, Exceptional("nothing is written", retryable=False), Exceptional("near", refused, further)
    )
    assert not command.retryable
    assert command.parameters == (SPEC.parameters[0], refused, further)
    assert [exception.because for exception in command.exceptions] == ["nothing is written", "near"]
    assert command.spec is SPEC


@pytest.mark.parametrize(
    "exception",
    [
        Exceptional("no difference", retryable=True),
        Exceptional("no difference", Parameter("at", Type.STRING)),
        Exceptional("both", SPEC.parameters[1], retryable=False),
    ],
)
def test_an_exception_makes_a_difference(exception: Exceptional) -> None:
    with pytest.raises(AssertionError, match="no exception"):
        SPEC.command(run, exception)


def test_an_exception_has_a_reason() -> None:
    with pytest.raises(AssertionError, match="reason"):
        Exceptional("", retryable=False)


def test_a_trait_that_no_spec_has_is_no_exception() -> None:
    with pytest.raises(KeyError):
        SPEC.command(run, Exceptional("misspelt", retriable=False))


def test_a_command_that_refuses_says_why_where_others_say_what_they_do() -> None:
    command = Spec("gone", privilege=AUTHENTICATED, role=Role.ANY, refuses="it has gone").command(run)
    assert command.help == "refused: it has gone"
    assert command.privilege.resource is Resource.USER
