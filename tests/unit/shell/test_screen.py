"""What is printed: colours, and the line that tells how far a long command has come."""

from __future__ import annotations

import io
import threading
from typing import Any

import bson
import pytest

from shell.address import parse_address
from shell.bindings import watcher
from shell.bindings.screen import Screen, progress_text
from shell.bindings.watcher import OperationWatcher, progress_of
from shell.deployment import Deployment
from tests.unit.shell.fake_server import FakeServer


def test_results_are_coloured_and_plain_text_is_not() -> None:
    output = io.StringIO()
    screen = Screen(output, colour=True)
    screen.write('{ "a" : 1 }\n')
    screen.write_result('{ "a" : [ "x\\"y", -1.5, true, ObjectId("4f") ], "b2" : NumberLong(5) }')
    assert output.getvalue() == (
        '{ "a" : 1 }\n{ \x1b[36m"a"\x1b[0m : [ \x1b[32m"x\\"y"\x1b[0m, \x1b[33m-1.5\x1b[0m, \x1b[35mtrue\x1b[0m, '
        '\x1b[34mObjectId\x1b[0m(\x1b[32m"4f"\x1b[0m) ], '
        '\x1b[36m"b2"\x1b[0m : \x1b[34mNumberLong\x1b[0m(\x1b[33m5\x1b[0m) }'
    )


def test_the_line_of_progress_is_gone_before_anything_else() -> None:
    output = io.StringIO()
    screen = Screen(output, live=True)
    screen.progress("insert a.b", 1, 4)
    screen.write("done\n")
    screen.progress("", 0, 0)
    assert output.getvalue() == f"\rinsert a.b: [{'=' * 7}{' ' * 23}]  25% 1/4\x1b[K\r\x1b[Kdone\n"
    silent = io.StringIO()
    Screen(silent).progress("insert a.b", 1, 4)
    assert silent.getvalue() == ""


def test_progress_of_unknown_length_is_a_count() -> None:
    assert progress_text("m a.b map", 7, 0) == "m a.b map: 7"
    assert progress_text("m a.b 3 s", 0, 0) == "m a.b 3 s ..."


def operation(database: str, target: str, done: int, **more: Any) -> dict[str, Any]:
    return {"command": {"mapreduce": target, "$db": database}, "progress": {"done": done} | more, "msg": "m/r: map"}


def test_the_parts_on_all_shards_count() -> None:
    reply = {
        "inprog": [operation("d", "c", 5), operation("d", "c", 7, total=20), operation("e", "c", 1), {"op": "none"}]
    }
    assert progress_of(reply, "mapReduce", "c", "d") == (12, 20, "map")
    assert progress_of({"inprog": []}, "mapReduce", "c", "d") == (0, 0, "")


def test_a_long_command_is_watched_from_a_second_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "DELAY", 0.0)
    monkeypatch.setattr(watcher, "PAUSE", 0.001)
    seen = threading.Event()

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        if "count" in command:
            return {"ok": 1.0, "n": 10}
        if "currentOp" in command:
            return {"ok": 1.0, "inprog": [operation("d", "c", 5)]}
        assert seen.wait(10)
        return {"ok": 1.0}

    class Output(io.StringIO):
        def write(self, text: str) -> int:
            if "50% 5/10" in text:
                seen.set()
            return super().write(text)

    output = Output()
    with FakeServer(answer) as server:
        deployment = Deployment(parse_address(server.address))
        command = {"mapReduce": "c", "$db": "d"}
        with OperationWatcher(deployment, command, Screen(output, live=True)):
            deployment.run(bson.encode(command))
        deployment.close()
    assert output.getvalue().endswith("\r\x1b[K")
