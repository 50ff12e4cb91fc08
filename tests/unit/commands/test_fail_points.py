"""The fail point `failCommand`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import bson
import pytest

from docstore.bson import from_python
from docstore.commands.builtin import TEST_COMMANDS
from docstore.commands.client_connection import ClientConnection
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.commands.envelope import open_request
from docstore.commands.fail_points.failures import failure_of
from docstore.commands.fail_points.registry import FailPoint, FailPoints
from docstore.errors import CommandError
from tests.harness.dispatching import ask, command, peer, request, services_of


async def _no_wait(_seconds: float) -> None:
    return None


async def _outcome(pending: Pending) -> Any:
    return await pending.finish()


def _dispatcher(**traits: Any) -> Dispatcher:
    services = services_of([*TEST_COMMANDS, command("ping"), command("write", write_concern=True, **traits)])
    return Dispatcher(replace(services, fail_points=FailPoints(_no_wait, lambda: 0.5)))


def _set(dispatcher: Dispatcher, mode: Any, **data: Any) -> int:
    body = {"configureFailPoint": "failCommand", "mode": mode, "data": data}
    return int(ask(dispatcher, body, db="admin")["count"])


def test_a_command_fails_as_often_as_it_was_told_to() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, {"times": 2}, failCommands=["ping"], errorCode=10107)
    codes = [ask(dispatcher, {"ping": 1}).get("code") for _ in range(3)]
    assert codes == [10107, 10107, None]
    assert _set(dispatcher, "off") == 2


def test_skipped_and_other_commands_go_on() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, {"skip": 1}, failCommands=["ping"], errorCode=4)
    assert ask(dispatcher, {"write": 1})["ok"] == 1
    assert [ask(dispatcher, {"ping": 1})["ok"] for _ in range(2)] == [1, 0]


def test_labels_of_the_fail_point_are_the_only_ones() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, "alwaysOn", failCommands=["ping"], errorCode=91, errorLabels=["mine"])
    assert ask(dispatcher, {"ping": 1})["errorLabels"] == ["mine"]


def test_a_write_concern_error_joins_the_reply_of_a_command_that_ran() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, "alwaysOn", failCommands=["write", "ping"], writeConcernError={"code": 64, "errmsg": "x"})
    assert ask(dispatcher, {"write": 1})["writeConcernError"] == {"code": 64, "errmsg": "x"}
    assert "writeConcernError" not in ask(dispatcher, {"ping": 1})


def test_a_blocked_command_waits_and_then_runs() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, {"times": 1}, failCommands=["ping"], blockConnection=True, blockTimeMS=5)
    pending = dispatcher.handle(request({"ping": 1}), peer())
    assert isinstance(pending, Pending)
    body = asyncio.run(_outcome(pending))
    assert isinstance(body, bytes)
    assert bson.decode(body)["ok"] == 1


def test_a_connection_is_closed_when_asked_to() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, "alwaysOn", failCommands=["ping"], closeConnection=True)
    closed: list[bool] = []
    dispatcher.handle(request({"ping": 1}), ClientConnection(1, "127.0.0.1:5000", lambda: closed.append(True)))
    assert closed == [True]


@pytest.mark.parametrize(
    ("mode", "code"), [("often", 2), (1, 14), ({"times": "x"}, 14), ({"times": -1}, 2), ({"now": 1}, 2)]
)
def test_modes_that_are_none_are_refused(mode: Any, code: int) -> None:
    with pytest.raises(CommandError) as refusal:
        FailPoint(lambda: 0.5).configure(from_python(mode), None)
    assert refusal.value.code == code


def test_an_application_can_be_chosen() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, "alwaysOn", failCommands=["ping"], errorCode=4, appName="other")
    assert ask(dispatcher, {"ping": 1})["ok"] == 1


def test_a_time_limit_is_over_at_once() -> None:
    dispatcher = _dispatcher()
    body = {"configureFailPoint": "maxTimeAlwaysTimeOut", "mode": "alwaysOn"}
    assert ask(dispatcher, body, db="admin")["ok"] == 1
    assert ask(dispatcher, {"ping": 1})["ok"] == 1
    assert ask(dispatcher, {"ping": 1, "maxTimeMS": 1000})["code"] == 50


def test_the_first_hello_tells_which_application_it_is() -> None:
    dispatcher = _dispatcher()
    _set(dispatcher, "alwaysOn", failCommands=["ping"], errorCode=4, appName="me")
    services = dispatcher.services
    assert services.fail_points is not None
    message = request({"ping": 1})
    context, _ = open_request(message._replace(body=bson.encode({"ping": 1, "$db": "x"})), peer(), services, 0.0)
    assert failure_of(services.fail_points, context) is None
    context = context.derived(raw=bson.encode({"ping": 1, "client": {"application": {"name": "me"}}}))
    assert failure_of(services.fail_points, context) is not None


def test_the_log_is_held_where_one_is_followed() -> None:
    dispatcher = _dispatcher()
    body: dict[str, Any] = {"configureFailPoint": "stopReplProducer", "mode": "alwaysOn"}
    assert ask(dispatcher, body, db="admin")["codeName"] == "FailPointSetFailed"
    points, held = dispatcher.services.fail_points, []
    assert points is not None
    points.hold_log = held.append
    for mode in ("alwaysOn", "off"):
        assert ask(dispatcher, {**body, "mode": mode}, db="admin")["ok"] == 1
    assert held == [True, False]
    assert ask(dispatcher, {**body, "mode": {"times": 2}}, db="admin")["codeName"] == "BadValue"
